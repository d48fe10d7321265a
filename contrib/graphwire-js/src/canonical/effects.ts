/** Effects of nodes: which may change places, decided by the names of their operators alone. */

/** How freely a node may move: the greater, the less freely. */
export const PURE = 0;
export const ORDERED = 1;
export const FIXED = 2;
export type Effect = typeof PURE | typeof ORDERED | typeof FIXED;

function names(text: string): ReadonlySet<string> {
  return new Set(text.split(/\s+/));
}

/** Assertions and messages. */
const ASSERTIONS = names(
  `_assert_async _assert_scalar _assert_tensor_metadata _functional_assert_async _functional_assert_scalar
  _functional_sym_constrain_range _functional_sym_constrain_range_for_size _linalg_check_errors _make_dep_token
  _print _validate_compressed_sparse_indices _validate_sparse_bsc_tensor_args _validate_sparse_bsr_tensor_args
  _validate_sparse_compressed_tensor_args _validate_sparse_coo_tensor_args _validate_sparse_csc_tensor_args
  _validate_sparse_csr_tensor_args sym_constrain_range sym_constrain_range_for_size warn`,
);
/** Operators that change an argument or state, although their names do not say so. */
const MUTATING = names(
  `Delete _batch_norm_impl_index _batch_norm_with_update _cudnn_attention_forward_no_dropout_inplace
  _cummax_helper _cummin_helper _flash_attention_forward_no_dropout_inplace _fused_moving_avg_obs_fq_helper
  _native_batch_norm_legit _set_item append batch_norm clear copy_to cudnn_batch_norm extend
  fused_moving_avg_obs_fake_quant insert instance_norm manual_seed miopen_batch_norm native_batch_norm pop
  popitem record_stream remove resize retain_grad reverse rrelu_with_noise seed set_data setdefault update`,
);
/** Overloads that write into an argument. */
const MUTATING_OVERLOADS = names(
  `L OutScalar_Other OutScalar_Self OutTensor Q U X a dim_max dim_min dim_values dimname_values
  dimname_values_stable eigenvalues eigvals grad_input inverse names_dim_max names_dim_min names_dim_values
  result sign values values_stable`,
);
/** Operators that draw random numbers. */
const RANDOM = names(
  `_cudnn_attention_backward _cudnn_attention_forward _cudnn_init_dropout_state _cudnn_rnn
  _efficient_attention_forward _flash_attention_forward _fused_dropout _fused_sdp_choice _lstm_mps
  _native_multi_head_attention _nested_tensor_softmax_with_shape _sample_dirichlet
  _scaled_dot_product_attention_math _scaled_dot_product_attention_math_for_mps
  _scaled_dot_product_cudnn_attention _scaled_dot_product_cudnn_attention_backward
  _scaled_dot_product_efficient_attention _scaled_dot_product_efficient_attention_backward
  _scaled_dot_product_flash_attention _scaled_dot_product_flash_attention_for_cpu
  _scaled_dot_product_fused_attention_overrideable _standard_gamma _transformer_encoder_layer_fwd
  _triton_scaled_dot_attention alpha_dropout bernoulli binomial cauchy dropout exponential feature_alpha_dropout
  feature_dropout geometric gru log_normal lstm miopen_rnn multinomial native_dropout normal normal_functional
  poisson rand rand_like randint randint_like randn randn_like random randperm rnn_relu rnn_tanh rrelu
  rrelu_with_noise_functional scaled_dot_product_attention uniform`,
);
/** Higher-order operators whose only effects are those of their subgraphs. */
const CONTAINERS = names(
  `associative_scan cond flex_attention flex_attention_backward foreach_map hints_wrapper invoke_quant
  invoke_quant_packed invoke_subgraph map map_impl out_dtype run_const_graph scan strict_mode
  tag_activation_checkpoint while_loop while_loop_stack_output wrap wrap_activation_checkpoint
  wrap_with_autocast wrap_with_set_grad_enabled`,
);
/** Higher-order operators that change no tensor, but may have another effect. */
const ORDERED_CONTAINERS = names(
  `auto_functionalized auto_functionalized_v2 graphsafe_run_with_rng_state print run_and_save_rng_state
  run_with_rng_state triton_kernel_wrapper_functional with_effects`,
);

const OVERLOAD = /^torch\.ops\.(aten|prims)\.([A-Za-z0-9_]+)\.([A-Za-z0-9_]+)$/;
const HIGHER_ORDER = "torch.ops.higher_order.";
const FUNCTION = /^(_operator\.|math\.|builtins\.|torch\.sym_|torch\._sym_)/;
const GUARDLESS = "torch.fx.experimental.symbolic_shapes.cast_symbool_to_symint_guardless";

/** Returns the effect of an operator, without that of subgraphs. */
export function effectOf(target: string, returns: boolean): Effect {
  const [, namespace, name, overload] = OVERLOAD.exec(target) ?? [];
  if (namespace !== undefined && name !== undefined && overload !== undefined) {
    return overloadEffect(namespace, name, overload, returns);
  }
  if (target.startsWith(HIGHER_ORDER)) {
    const operator = target.slice(HIGHER_ORDER.length);
    if (CONTAINERS.has(operator)) return PURE;
    return ORDERED_CONTAINERS.has(operator) ? ORDERED : FIXED;
  }
  return FUNCTION.test(target) || target === GUARDLESS ? PURE : FIXED;
}

function overloadEffect(namespace: string, name: string, overload: string, returns: boolean): Effect {
  if (ASSERTIONS.has(name)) return ORDERED;
  const inPlace = name.endsWith("__") ? name.startsWith("__i") : name.endsWith("_");
  if (MUTATING.has(name) || inPlace || overload.includes("out") || MUTATING_OVERLOADS.has(overload)) return FIXED;
  if (namespace === "prims" && (name === "as_strided" || name.startsWith("inductor_"))) return FIXED;
  if (!returns) return FIXED;
  return RANDOM.has(name) ? ORDERED : PURE;
}

/** The arguments that a call may leave out, and what they then are. Of torch's usual operators the page knows them itself; a test compares with torch. */

import { floatLiteral } from "graphwire-js";

/** An operator of aten a line, without the overload `default`. */
export const DEFAULTS = `
_assert_tensor_metadata size=None stride=None dtype=None device=None layout=None
_to_copy dtype=None layout=None device=None pin_memory=None non_blocking=False memory_format=None
add.Scalar alpha=1
add.Tensor alpha=1
add_.Tensor alpha=1
addbmm beta=1 alpha=1
addcdiv value=1
addcmul value=1
addmm beta=1 alpha=1
addmv beta=1 alpha=1
all.dim keepdim=False
allclose rtol=1e-05 atol=1e-08 equal_nan=False
amax dim=[] keepdim=False
amin dim=[] keepdim=False
any.dim keepdim=False
arange dtype=None layout=None device=None pin_memory=None
arange.start dtype=None layout=None device=None pin_memory=None
arange.start_step step=1 dtype=None layout=None device=None pin_memory=None
argmax dim=None keepdim=False
argmin dim=None keepdim=False
avg_pool1d stride=[] padding=[0] ceil_mode=False count_include_pad=True
avg_pool2d stride=[] padding=0 ceil_mode=False count_include_pad=True divisor_override=None
avg_pool3d stride=[] padding=0 ceil_mode=False count_include_pad=True divisor_override=None
baddbmm beta=1 alpha=1
bernoulli generator=None
binary_cross_entropy weight=None reduction=1
binary_cross_entropy_with_logits weight=None pos_weight=None reduction=1
bucketize.Tensor out_int32=False right=False
cat dim=0
cdist p=2. compute_mode=None
celu alpha=1.
chunk dim=0
clamp min=None max=None
clamp.Tensor min=None max=None
clone memory_format=None
constant_pad_nd value=0
contiguous memory_format=0
conv1d bias=None stride=[1] padding=[0] dilation=[1] groups=1
conv2d bias=None stride=[1,1] padding=[0,0] dilation=[1,1] groups=1
conv3d bias=None stride=[1,1,1] padding=[0,0,0] dilation=[1,1,1] groups=1
conv_transpose1d bias=None stride=[1] padding=[0] output_padding=[0] groups=1 dilation=[1]
cosine_similarity dim=1 eps=1e-08
cross_entropy_loss weight=None reduction=1 ignore_index=-100 label_smoothing=0.
cumprod dtype=None
cumsum dtype=None
diagonal offset=0 dim1=0 dim2=1
einsum path=None
elu alpha=1 scale=1 input_scale=1
embedding padding_idx=-1 scale_grad_by_freq=False sparse=False
embedding_bag scale_grad_by_freq=False mode=0 sparse=False per_sample_weights=None include_last_offset=False
empty.memory_format dtype=None layout=None device=None pin_memory=None memory_format=None
empty_like dtype=None layout=None device=None pin_memory=None memory_format=None
eye dtype=None layout=None device=None pin_memory=None
fft_fft n=None dim=-1 norm=None
fft_irfft n=None dim=-1 norm=None
fft_rfft n=None dim=-1 norm=None
flatten.using_ints start_dim=0 end_dim=-1
full dtype=None layout=None device=None pin_memory=None
full_like dtype=None layout=None device=None pin_memory=None memory_format=None
gather sparse_grad=False
gelu approximate="none"
glu dim=-1
group_norm weight=None bias=None eps=1e-05 cudnn_enabled=True
hardtanh min_val=-1 max_val=1
hardtanh_ min_val=-1 max_val=1
huber_loss reduction=1 delta=1.
index_add alpha=1
index_put accumulate=False
index_put_ accumulate=False
isclose rtol=1e-05 atol=1e-08 equal_nan=False
istft hop_length=None win_length=None window=None center=True normalized=False onesided=None length=None return_complex=False
kl_div reduction=1 log_target=False
l1_loss reduction=1
layer_norm weight=None bias=None eps=1e-05 cudnn_enable=True
leaky_relu negative_slope=0.01
linalg_vector_norm ord=2 dim=None keepdim=False dtype=None
linear bias=None
linspace dtype=None layout=None device=None pin_memory=None
logsumexp keepdim=False
max.dim keepdim=False
max_pool1d stride=[] padding=[0] dilation=[1] ceil_mode=False
max_pool2d stride=[] padding=0 dilation=1 ceil_mode=False
max_pool2d_with_indices stride=[] padding=0 dilation=1 ceil_mode=False
max_pool3d stride=[] padding=0 dilation=1 ceil_mode=False
mean dtype=None
mean.dim keepdim=False dtype=None
median.dim keepdim=False
min.dim keepdim=False
mse_loss reduction=1
multinomial replacement=False generator=None
nan_to_num nan=None posinf=None neginf=None
new_empty dtype=None layout=None device=None pin_memory=None
new_full dtype=None layout=None device=None pin_memory=None
new_ones dtype=None layout=None device=None pin_memory=None
new_zeros dtype=None layout=None device=None pin_memory=None
nll_loss weight=None reduction=1 ignore_index=-100
norm.ScalarOpt_dim keepdim=False
normal.Tensor_Tensor generator=None
one_hot num_classes=-1
ones dtype=None layout=None device=None pin_memory=None
ones_like dtype=None layout=None device=None pin_memory=None memory_format=None
pad mode="constant" value=None
prod dtype=None
prod.dim_int keepdim=False dtype=None
rand dtype=None layout=None device=None pin_memory=None
rand_like dtype=None layout=None device=None pin_memory=None memory_format=None
randn dtype=None layout=None device=None pin_memory=None
randn_like dtype=None layout=None device=None pin_memory=None memory_format=None
repeat_interleave.self_int dim=None output_size=None
rms_norm weight=None eps=None
roll dims=[]
rsub.Scalar alpha=1
rsub.Tensor alpha=1
scalar_tensor dtype=None layout=None device=None pin_memory=None
scaled_dot_product_attention attn_mask=None dropout_p=0. is_causal=False scale=None enable_gqa=False
scatter_reduce.two include_self=True
searchsorted.Tensor out_int32=False right=False side=None sorter=None
slice.Tensor dim=0 start=None end=None step=1
slice_scatter dim=0 start=None end=None step=1
smooth_l1_loss reduction=1 beta=1.
softplus beta=1 threshold=20
sort dim=-1 descending=False
split.Tensor dim=0
split_with_sizes dim=0
stack dim=0
std.correction dim=None correction=None keepdim=False
std.dim unbiased=True keepdim=False
stft hop_length=None win_length=None window=None normalized=False onesided=None return_complex=None align_to_window=None
sub.Scalar alpha=1
sub.Tensor alpha=1
sum dtype=None
sum.dim_IntList keepdim=False dtype=None
sym_constrain_range min=None max=None
sym_constrain_range_for_size min=None max=None
to.device non_blocking=False copy=False memory_format=None
to.dtype non_blocking=False copy=False memory_format=None
to.dtype_layout dtype=None layout=None device=None pin_memory=None non_blocking=False copy=False memory_format=None
topk dim=-1 largest=True sorted=True
tril diagonal=0
triu diagonal=0
unbind.int dim=0
unique_dim sorted=True return_inverse=False return_counts=False
var.correction dim=None correction=None keepdim=False
var.dim unbiased=True keepdim=False
var_mean.correction dim=None correction=None keepdim=False
zeros dtype=None layout=None device=None pin_memory=None
zeros_like dtype=None layout=None device=None pin_memory=None memory_format=None
`;

type Default = readonly [name: string, value: string];

/** Returns the defaults of an operator, by its schema if there is one. */
export function defaultsOf(target: string, schema: string): readonly Default[] {
  if (schema !== "") return schemaDefaults(schema);
  const name = target.replace(/^torch\.ops\.aten\./, "").replace(/\.default$/, "");
  const line = DEFAULTS.split("\n").find((each) => each.startsWith(`${name} `)) ?? "";
  return line.split(" ").slice(1).map(pair);
}

/** Reads the defaults in a schema such as `aten::gelu(Tensor self, *, str approximate="none") -> Tensor`. */
export function schemaDefaults(schema: string): Default[] {
  const [, inside = ""] = /\((.*)\) ->/s.exec(schema) ?? [];
  return Array.from(inside.matchAll(/\b(\w+)=(\[[^\]]*\]|"[^"]*"|'[^']*'|[^,]*)/g), ([, name = "", value = ""]) => [name, number(value.replaceAll(" ", ""))] as const);
}

function pair(text: string): Default {
  const at = text.indexOf("=");
  return [text.slice(0, at), text.slice(at + 1)];
}

/** Writes a float as Python does. */
function number(text: string): string {
  return /^-?\d+(\.\d+)?e[+-]\d+$|^-?\d+\.\d+$/.test(text) ? floatLiteral(Number(text)) : text;
}

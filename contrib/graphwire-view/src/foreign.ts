/** Files of other kinds, which people drop on the page: what they are, and what is in them. */

export interface Foreign {
  /** `a safetensors file: weights, without a program` */
  readonly what: string;
  readonly remedy: string;
  readonly facts: readonly (readonly [term: string, meaning: string])[];
  readonly heads: readonly string[];
  readonly rows: readonly (readonly (string | number)[])[];
}

const EXPORT = "graphwire shows programs: export the module with torch.export.export, and save what it makes with graphwire.save.";
/** The most bytes of a file that are read to say what it is. */
const MOST = 64 << 20;
const HEAD = 1 << 14;
const TAIL = 1 << 16;
const OVERLAY = "graphwire view model.pt2 --overlay FILE colours the nodes of a program by it.";

/** What files begin with, a character for each byte. */
const BEGINNINGS: readonly (readonly [begins: RegExp, what: string, remedy?: string])[] = [
  [/^$/, "an empty file"],
  [/^GGUF/, "a GGUF file: quantised weights for llama.cpp, without a program"],
  [/^\x89HDF/, "an HDF5 file, such as weights of Keras"],
  [/^.{4}TFL3/s, "a TensorFlow Lite model"],
  [/^.{4}ET12/s, "a program for ExecuTorch, which its runtime runs"],
  [/^\x93NUMPY/, "an array of NumPy"],
  [/^\x80/, "a pickle, such as an old torch.save wrote: reading it would run code"],
  [/^(\x89PNG|\xff\xd8\xff|GIF8|%PDF|<)/, "a picture or a page"],
  [/^\{.*"traceEvents"\s*:/s, "a trace of a profiler", OVERLAY],
];

/** Returns what a file is that has no program; null if it may have one. */
export async function foreignOf(file: Blob, name: string): Promise<Foreign | null> {
  const head = new Uint8Array(await file.slice(0, HEAD).arrayBuffer());
  const start = String.fromCharCode(...head);
  const plain = (what: string, remedy = EXPORT): Foreign => ({ what, remedy, facts: [], heads: [], rows: [] });
  if (start.startsWith("PK")) {
    const tail = new TextDecoder("latin1").decode(await file.slice(Math.max(0, file.size - TAIL)).arrayBuffer());
    if (/\/models\/|serialized_exported_program|\.(json|cbor|msgpack)\b/.test(tail) || !tail.includes("/data.pkl")) return null;
    return plain(tail.includes("/code/") ? "a TorchScript program of torch.jit.save" : "a checkpoint of torch.save: weights, without a program");
  }
  const known = BEGINNINGS.find(([begins]) => begins.test(start));
  if (known !== undefined) return plain(known[1], known[2]);
  if (name.toLowerCase().endsWith(".csv")) return plain("a table, such as numbers for nodes", OVERLAY);
  if (head[8] === 0x7b) {
    const length = Number(new DataView(head.buffer).getBigUint64(0, true));
    if (length < Math.min(MOST, file.size)) return safetensors(await file.slice(8, 8 + length).text());
  }
  if (name.toLowerCase().endsWith(".onnx")) return onnx(new Uint8Array(await file.slice(0, MOST).arrayBuffer()));
  return null;
}

function safetensors(json: string): Foreign | null {
  let header: unknown;
  try {
    header = JSON.parse(json);
  } catch {
    return null;
  }
  if (typeof header !== "object" || header === null) return null;
  const tensors = Object.entries(header).flatMap(([name, held]: [string, unknown]) => {
    if (name === "__metadata__" || typeof held !== "object" || held === null) return [];
    const { dtype, shape, data_offsets: offsets } = held as { dtype?: unknown; shape?: unknown; data_offsets?: unknown };
    const [from, to] = Array.isArray(offsets) ? offsets.map(Number) : [];
    return [{ name, type: `${String(dtype)} [${Array.isArray(shape) ? shape.join(", ") : "?"}]`, bytes: (to ?? 0) - (from ?? 0) }];
  });
  return {
    what: "a safetensors file: weights, without a program",
    remedy: "graphwire.save(program, path, weights=\"model.safetensors\") makes a program that refers to it.",
    facts: [["Tensors", String(tensors.length)], ["Bytes", tensors.reduce((sum, { bytes }) => sum + bytes, 0).toLocaleString("en")]],
    heads: ["Name", "Type", "#Bytes"],
    rows: tensors.map(({ name, type, bytes }) => [name, type, bytes]),
  };
}

/** Yields the fields of a message of Protocol Buffers: numbers, or bytes. It ends where the message is cut or wrong. */
function* fieldsOf(bytes: Uint8Array): Generator<readonly [field: number, value: number | Uint8Array]> {
  let at = 0;
  const number = (): number => {
    let value = 0;
    for (let power = 1; at < bytes.length; power *= 128) {
      const byte = bytes[at++] ?? 0;
      value += (byte & 127) * power;
      if (byte < 128) break;
    }
    return value;
  };
  while (at < bytes.length) {
    const key = number();
    const kind = key % 8;
    if (kind === 0) yield [Math.floor(key / 8), number()];
    else if (kind === 1 || kind === 5) at += kind === 1 ? 8 : 4;
    else if (kind === 2) {
      const length = number();
      yield [Math.floor(key / 8), bytes.subarray(at, at + length)];
      at += length;
    } else return;
  }
}

function onnx(bytes: Uint8Array): Foreign {
  const text = (value: number | Uint8Array): string => (typeof value === "number" ? String(value) : new TextDecoder().decode(value));
  const inside = (value: number | Uint8Array): (readonly [number, number | Uint8Array])[] => (typeof value === "number" ? [] : [...fieldsOf(value)]);
  const model = [...fieldsOf(bytes)];
  const of = (fields: readonly (readonly [number, number | Uint8Array])[], wanted: number): (number | Uint8Array)[] => fields.flatMap(([field, value]) => (field === wanted ? [value] : []));
  const graph = of(model, 7).flatMap(inside);
  const counts = new Map<string, number>();
  for (const node of of(graph, 1)) {
    const operator = of(inside(node), 4).map(text).join("");
    counts.set(operator, (counts.get(operator) ?? 0) + 1);
  }
  const names = (field: number): string => of(graph, field).flatMap((each) => of(inside(each), 1).map(text)).slice(0, 20).join(", ");
  return {
    what: "an ONNX model",
    remedy: `Netron shows it. ${EXPORT}`,
    facts: [
      ["Made by", [2, 3].flatMap((field) => of(model, field).map(text)).join(" ")],
      ["Operator sets", of(model, 8).map((each) => inside(each).map(([, value]) => text(value)).filter((part) => part !== "").join(" ")).join(", ")],
      ["Inputs", names(11)], ["Outputs", names(12)], ["Weights", String(of(graph, 5).length)], ["Nodes", String(of(graph, 1).length)],
    ],
    heads: ["Operator", "#Count"],
    rows: [...counts].sort(([, a], [, b]) => b - a).map(([name, count]) => [name, count]),
  };
}

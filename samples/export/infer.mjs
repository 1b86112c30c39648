// The digits network as WebAssembly, under Node: node infer.mjs. In a browser the same code runs after fetch("digits.wasm").
import { readFileSync } from "node:fs";

const module = await WebAssembly.instantiate(readFileSync("digits.wasm"));
const f = module.instance.exports;
const images = readFileSync("images.bin"), labels = readFileSync("labels.bin");
const n = labels.length / 4;

// The caller gives all memory: places behind the module's own data, each on a multiple of 64 bytes.
let end = f.__heap_base.value;
function place(bytes) {
  const at = Math.ceil(end / 64) * 64;
  end = at + Number(bytes);
  const missing = end - f.memory.buffer.byteLength;
  if (missing > 0) f.memory.grow(Math.ceil(missing / 65536));
  return at;
}

// Structures of digits.h as wasm32 lays them out: pointers have 4 bytes, int64_t lies on 8.
const x = place(images.length), y = place(n * 40), digit = place(n * 4);
const inputs = place(4), outputs = place(8), sizes = place(8), call = place(32 + 56);
let view = new DataView(f.memory.buffer);
view.setBigInt64(sizes, BigInt(n), true);
const bytes = f.digits_run_workspace_bytes(sizes);
const workspace = place(bytes);
view = new DataView(f.memory.buffer);            // growing the memory made a new buffer
new Uint8Array(f.memory.buffer).set(images, x);
view.setUint32(inputs, x, true);
view.setUint32(outputs, y, true);
view.setUint32(outputs + 4, digit, true);
view.setUint32(call, workspace, true);
view.setBigInt64(call + 8, bytes, true);

const status = f.digits_run(inputs, outputs, sizes, call);
if (status !== 0) {
  const text = new Uint8Array(f.memory.buffer, f.digits_error_message(status));
  throw new Error(new TextDecoder().decode(text.subarray(0, text.indexOf(0))));
}
const found = new Int32Array(f.memory.buffer, digit, n), wanted = new Int32Array(labels.buffer, labels.byteOffset, n);
const right = found.filter((d, k) => d === wanted[k]).length;
console.log(`${right} of ${n} images right: accuracy ${(100 * right / n).toFixed(2)} %`);

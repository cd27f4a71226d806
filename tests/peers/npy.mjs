// Arrays in NumPy's .npy format (versions 1–3, little-endian, C order), as {type, dims, data}.
import {readFileSync, writeFileSync} from 'node:fs';

const kinds = {
  '<f4': ['float32', Float32Array],
  '<f8': ['float64', Float64Array],
  '<i8': ['int64', BigInt64Array],
  '<i4': ['int32', Int32Array],
  '|u1': ['uint8', Uint8Array],
  '|i1': ['int8', Int8Array],
  '|b1': ['bool', Uint8Array],
};

export function readNpy(path) {
  const file = readFileSync(path);
  if (file.length < 10 || file.toString('latin1', 0, 6) !== '\x93NUMPY') throw new Error(`${path}: not a .npy file`);
  const wide = file[6] > 1;
  const headerLength = wide ? file.readUInt32LE(8) : file.readUInt16LE(8);
  const begin = (wide ? 12 : 10) + headerLength;
  const header = file.toString('latin1', wide ? 12 : 10, begin);
  const descr = /'descr': *'([^']*)'/.exec(header)?.[1];
  if (!(descr in kinds)) throw new Error(`${path}: the element type ${descr} is not read here`);
  const dims = (/'shape': *\(([^)]*)\)/.exec(header)?.[1] ?? '').split(',').map((s) => s.trim()).filter(Boolean).map(Number);
  const count = dims.reduce((a, b) => a * b, 1);
  if (/'fortran_order': *True/.test(header) && dims.length > 1) throw new Error(`${path}: Fortran order is not read here`);
  const [type, Array_] = kinds[descr];
  const bytes = count * Array_.BYTES_PER_ELEMENT;
  if (file.length < begin + bytes) throw new Error(`${path}: ${file.length - begin} bytes where ${bytes} are needed`);
  const copy = new Uint8Array(bytes);  // aligned for the typed array
  copy.set(file.subarray(begin, begin + bytes));
  return {type, dims, data: new Array_(copy.buffer)};
}

export function writeNpy(path, {type, dims, data}) {
  const descr = Object.keys(kinds).find((key) => kinds[key][0] === type);
  if (!descr) throw new Error(`${path}: the element type ${type} is not written here`);
  const shape = dims.length === 1 ? `${dims[0]},` : dims.join(', ');
  let header = `{'descr': '${descr}', 'fortran_order': False, 'shape': (${shape}), }`;
  header += ' '.repeat((64 - ((10 + header.length + 1) % 64)) % 64) + '\n';
  const prefix = Buffer.alloc(10);
  prefix.write('\x93NUMPY\x01\x00', 'latin1');
  prefix.writeUInt16LE(header.length, 8);
  writeFileSync(path, Buffer.concat([prefix, Buffer.from(header, 'latin1'), Buffer.from(data.buffer, data.byteOffset, data.byteLength)]));
}

// max |a − b| / max |b|; infinite when the shapes differ or a value is not finite in only one of them. Where max |b| is less than
// `least`, that counts: outputs near zero are rounding.
export function relativeError(a, b, least = 0) {
  if (a.dims.join() !== b.dims.join()) return Infinity;
  let difference = 0, scale = 0;
  for (let i = 0; i < b.data.length; ++i) {
    const x = Number(a.data[i]), y = Number(b.data[i]);
    if (Number.isFinite(y)) scale = Math.max(scale, Math.abs(y));
    if (Object.is(x, y) || x === y) continue;
    const d = Math.abs(x - y);
    difference = Math.max(difference, Number.isNaN(d) ? Infinity : d);
  }
  scale = Math.max(scale, least);
  return scale > 0 ? difference / scale : difference;
}

// Real files, one after the other: see real_models.sh.
//   node real_models.mjs PARE DIRECTORY [NAME…]
import {existsSync, readFileSync, readdirSync, rmSync} from 'node:fs';
import {join} from 'node:path';
import {readNpy, relativeError, writeNpy} from './npy.mjs';
import {finish, modelsIn, onnxRuntimeOutputs, runPare, scratch, within} from './peer.mjs';

const [pare, directory, ...names] = process.argv.slice(2);
const least = 0.01;  // below this differences of 1e-6 are rounding: ONNX Runtime differs so from itself without its optimiser
const compensate = process.env.COMPENSATE ?? 'most-sim';
const known = existsSync(join(directory, 'inputs.json')) ? JSON.parse(readFileSync(join(directory, 'inputs.json'))) : {};
const arrays = {float32: Float32Array, float64: Float64Array, int64: BigInt64Array, int32: Int32Array, uint8: Uint8Array, int8: Int8Array, bool: Uint8Array};

// What inputs.json says of a name: an extent, or the value of an input; of this model, else of all.
const said = (model, name) => known[model]?.[name] ?? known['*']?.[name];

let state = 1;
const uniform = () => (state = (Math.imul(state, 1103515245) + 12345) & 0x7fffffff) / 0x7fffffff;

function makeInput(model, input, file) {
  const value = said(model, input.name);
  const dims = Array.isArray(value) ? value : input.shape.replace(/[[\]]/g, '').split(',').map((part) => part.trim()).filter(Boolean)
                   .map((part) => (/^\d+$/.test(part) ? Number(part) : said(model, part) ?? 1));
  if (!(input.type in arrays)) throw new Error(`input ${input.name}: ${input.type} is not made here`);
  const number = Array.isArray(value) ? undefined : value;
  const data = new arrays[input.type](dims.reduce((a, b) => a * b, 1));
  for (let i = 0; i < data.length; ++i)
    data[i] = typeof data[i] === 'bigint' ? BigInt(number ?? 1) : number ?? (input.type.startsWith('float') ? 2 * uniform() - 1 : 1);
  writeNpy(file, {type: input.type, dims, data});
}

async function difference(model, files, what) {
  const own = join(scratch, 'own');
  rmSync(own, {recursive: true, force: true});
  const inspected = JSON.parse(runPare(pare, 'inspect', model, '--json', '-q'));
  const flags = inspected.inputs.flatMap((input, i) => ['--input', `${input.name}=${files[i]}`]);
  runPare(pare, 'run', model, ...flags, '--force', '-q', '-o', own);
  const theirs = await onnxRuntimeOutputs(model, files, join(scratch, 'ort'));
  const plain = (text) => text.replace(/[^A-Za-z0-9_.-]/g, '_');
  const names = inspected.outputs.map((output) => `${plain(output.name)}.npy`);
  const written = readdirSync(own);
  return within(Math.max(...theirs.map((array, i) => {
    const file = written.find((one) => plain(one) === names[i]) ?? (written.length === 1 ? written[0] : undefined);
    if (!file) throw new Error(`pare run wrote ${written}, not ${names[i]}`);
    return relativeError(readNpy(join(own, file)), array, least);
  })), what);
}

const models = modelsIn(directory, names);
let failures = 0, passed = 0;
const row = (...cells) => console.log(cells.map((cell, i) => String(cell).padEnd([64, 10, 10, 10, 10][i] ?? 0)).join(' ').trimEnd());
row('model', 'original', 'MACs gone', 'channels', 'pruned', '');
for (const name of models) {
  let model = join(directory, `${name}.onnx`);
  const slim = join(scratch, 'slim.onnx'), bound = join(scratch, 'bound.onnx');
  const cells = ['-', '-', '-', '-', ''];
  try {
    if (known[name]?.bind) {
      runPare(pare, 'convert', model, '--bind', ...known[name].bind, '--force', '-q', '-o', bound);
      model = bound;
      cells[4] = `with --bind ${known[name].bind.join(' ')}`;
    }
    const inspected = JSON.parse(runPare(pare, 'inspect', model, '--json', '-q'));
    const files = inspected.inputs.map((input, i) => {
      makeInput(name, input, join(scratch, `input${i}.npy`));
      return join(scratch, `input${i}.npy`);
    });
    cells[0] = await difference(model, files, 'original');
    const report = JSON.parse(runPare(pare, 'prune', model, '--macs', '0.2', '--compensate', compensate, '--no-record', '--json', '-q', '--force', '-o', slim));
    cells[1] = `${(100 * (1 - report.after.macs / report.before.macs)).toFixed(1)} %`;
    cells[2] = report.groups.reduce((sum, group) => sum + group.total - group.kept, 0);
    cells[3] = await difference(slim, files, 'pruned');
    ++passed;
  } catch (error) {
    ++failures;
    cells[4] = `FAILED: ${error.message}`;
  }
  row(name, ...cells);
}
finish(passed, failures);

// What the comparisons of pare with ONNX Runtime share.
import {spawn, spawnSync} from 'node:child_process';
import {mkdtempSync, readdirSync, rmSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {dirname, join} from 'node:path';
import {createInterface} from 'node:readline';
import {fileURLToPath} from 'node:url';
import {readNpy} from './npy.mjs';

export const tolerance = 1e-4;
export const scratch = mkdtempSync(join(tmpdir(), 'pare-peers-'));
process.on('exit', () => rmSync(scratch, {recursive: true, force: true}));

// ONNX Runtime in one process that answers a line per model.
const runtime = spawn(process.execPath, [join(dirname(fileURLToPath(import.meta.url)), 'ort_run.mjs'), '--batch'],
                      {stdio: ['pipe', 'pipe', 'inherit']});
runtime.stdin.on('error', () => {});  // its end shows as the end of its answers
const answers = createInterface({input: runtime.stdout})[Symbol.asyncIterator]();
export async function onnxRuntimeOutputs(model, input, outdir) {
  runtime.stdin.write(JSON.stringify({model, inputs: [input].flat(), outdir}) + '\n');
  const {value, done} = await answers.next();
  if (done) {
    console.error('ONNX Runtime ended before it answered');
    process.exit(1);
  }
  const answer = JSON.parse(value);
  if (answer.error) throw new Error(`ONNX Runtime: ${answer.error}`);
  return answer.outputs.map(readNpy);
}
export const onnxRuntime = async (...what) => (await onnxRuntimeOutputs(...what))[0];

export function runPare(pare, ...args) {
  const run = spawnSync(pare, args, {encoding: 'utf8', maxBuffer: 1 << 28});
  if (run.status !== 0)
    throw new Error(`pare ${args[0]} exits ${run.status ?? run.signal}: ${(run.stderr ?? String(run.error)).trim().split('\n').pop()}`);
  return run.stdout;
}

export function onlyArray(outdir) {
  const files = readdirSync(outdir).filter((file) => file.endsWith('.npy'));
  if (files.length !== 1) throw new Error(`pare run wrote ${files.length} arrays where 1 was expected`);
  return readNpy(join(outdir, files[0]));
}

export function within(error, what) {
  if (!(error <= tolerance)) throw new Error(`${what}: relative error ${error.toExponential(1)}, more than ${tolerance}`);
  return error.toExponential(1);
}

// The models of a directory, all or those named (resnet18, resnet18.kept); ends the program when there are none.
export function modelsIn(directory, names) {
  const models = readdirSync(directory).filter((file) => file.endsWith('.onnx')).map((file) => file.slice(0, -5))
                     .filter((name) => names.length === 0 || names.includes(name) || names.includes(name.split('.')[0])).sort();
  if (models.length === 0) {
    console.error(`no models in ${directory}; make them with tests/peers/export_torchvision.py ${directory}`);
    process.exit(1);
  }
  return models;
}

export function finish(passed, failures) {
  runtime.stdin.end();
  console.log(`${passed} passed, ${failures} failed`);
  process.exitCode = failures === 0 ? 0 : 1;
}

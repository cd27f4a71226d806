// Every exported architecture through pare and through ONNX Runtime: see architectures.sh.
//   node architectures.mjs PARE DIRECTORY [NAME…]
import {spawn, spawnSync} from 'node:child_process';
import {mkdtempSync, readdirSync, rmSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {dirname, join} from 'node:path';
import {createInterface} from 'node:readline';
import {fileURLToPath} from 'node:url';
import {readNpy, relativeError} from './npy.mjs';

const [pare, directory, ...names] = process.argv.slice(2);
const tolerance = 1e-4;
const scratch = mkdtempSync(join(tmpdir(), 'pare-peers-'));
process.on('exit', () => rmSync(scratch, {recursive: true, force: true}));

// ONNX Runtime in one process that answers a line per model.
const runtime = spawn(process.execPath, [join(dirname(fileURLToPath(import.meta.url)), 'ort_run.mjs'), '--batch'],
                      {stdio: ['pipe', 'pipe', 'inherit']});
runtime.stdin.on('error', () => {});  // its end shows as the end of its answers
const answers = createInterface({input: runtime.stdout})[Symbol.asyncIterator]();
async function onnxRuntime(model, input, outdir) {
  runtime.stdin.write(JSON.stringify({model, inputs: [input], outdir}) + '\n');
  const {value, done} = await answers.next();
  if (done) {
    console.error('ONNX Runtime ended before it answered');
    process.exit(1);
  }
  const answer = JSON.parse(value);
  if (answer.error) throw new Error(`ONNX Runtime: ${answer.error}`);
  return readNpy(answer.outputs[0]);
}

function runPare(...args) {
  const run = spawnSync(pare, args, {encoding: 'utf8', maxBuffer: 1 << 28});
  if (run.status !== 0)
    throw new Error(`pare ${args[0]} exits ${run.status ?? run.signal}: ${(run.stderr ?? String(run.error)).trim().split('\n').pop()}`);
  return run.stdout;
}

function onlyArray(outdir) {
  const files = readdirSync(outdir).filter((file) => file.endsWith('.npy'));
  if (files.length !== 1) throw new Error(`pare run wrote ${files.length} arrays where 1 was expected`);
  return readNpy(join(outdir, files[0]));
}

function within(error, what) {
  if (!(error <= tolerance)) throw new Error(`${what}: relative error ${error.toExponential(1)}, more than ${tolerance}`);
  return error.toExponential(1);
}

// "61/63 groups" and how often each reason for freezing occurs.
function describeGroups(report) {
  const groups = report.groups;
  if (!Array.isArray(groups)) throw new Error('pare inspect --json lists no groups');
  const frozen = groups.filter((group) => !group.prunable);
  const counts = new Map();
  for (const group of frozen) {
    if (!group.reason) throw new Error(`pare inspect: a frozen group without a reason: ${JSON.stringify(group).slice(0, 200)}`);
    counts.set(group.reason, (counts.get(group.reason) ?? 0) + 1);
  }
  const reasons = [...counts].sort((a, b) => b[1] - a[1]).map(([reason, n]) => `${n}x ${reason}`);
  const shown = reasons.slice(0, 3).join('; ') + (reasons.length > 3 ? `; ${reasons.length - 3} more` : '');
  return [`${groups.length - frozen.length}/${groups.length}`, shown];
}

const models = readdirSync(directory).filter((file) => file.endsWith('.onnx')).map((file) => file.slice(0, -5))
                   .filter((name) => names.length === 0 || names.includes(name) || names.includes(name.split('.')[0])).sort();
if (models.length === 0) {
  console.error(`no models in ${directory}; make them with tests/peers/export_torchvision.py ${directory}`);
  process.exit(1);
}

let failures = 0;
const row = (...cells) => console.log(cells.map((cell, i) => String(cell).padEnd([28, 8, 10, 10, 9][i] ?? 0)).join(' ').trimEnd());
row('model', 'loads', 'vs ORT', 'rewritten', 'prunable', 'frozen because');
for (const name of models) {
  const model = join(directory, `${name}.onnx`), input = join(directory, `${name.split('.')[0]}.input.npy`);
  const cells = ['no', '-', '-', '-', ''];
  try {
    const report = JSON.parse(runPare('inspect', model, '--json'));
    cells[0] = 'yes';
    [cells[3], cells[4]] = describeGroups(report);
    const expected = await onnxRuntime(model, input, join(scratch, 'ort'));
    runPare('run', model, '--input', input, '--force', '-o', join(scratch, 'own'));
    cells[1] = within(relativeError(onlyArray(join(scratch, 'own')), expected), 'pare run');
    const back = join(scratch, 'back.onnx');
    runPare('convert', model, '-o', back, '--force');
    cells[2] = within(relativeError(await onnxRuntime(back, input, join(scratch, 'again')), expected), 'written back');
  } catch (error) {
    ++failures;
    cells[4] = `FAILED: ${error.message}`;
  }
  row(name, ...cells);
  rmSync(join(scratch, 'own'), {recursive: true, force: true});
}
runtime.stdin.end();
console.log(`${models.length - failures} passed, ${failures} failed`);
process.exitCode = failures === 0 ? 0 : 1;

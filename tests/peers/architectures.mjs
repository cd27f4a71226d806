// Every exported architecture through pare and through ONNX Runtime: see architectures.sh.
//   node architectures.mjs PARE DIRECTORY [NAME…]
import {rmSync} from 'node:fs';
import {join} from 'node:path';
import {relativeError} from './npy.mjs';
import {finish, modelsIn, onlyArray, onnxRuntime, runPare, scratch, within} from './peer.mjs';

const [pare, directory, ...names] = process.argv.slice(2);
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

const models = modelsIn(directory, names);
let failures = 0;
const row = (...cells) => console.log(cells.map((cell, i) => String(cell).padEnd([28, 8, 10, 10, 9][i] ?? 0)).join(' ').trimEnd());
row('model', 'loads', 'vs ORT', 'rewritten', 'prunable', 'frozen because');
for (const name of models) {
  const model = join(directory, `${name}.onnx`), input = join(directory, `${name.split('.')[0]}.input.npy`);
  const cells = ['no', '-', '-', '-', ''];
  try {
    const report = JSON.parse(runPare(pare, 'inspect', model, '--json'));
    cells[0] = 'yes';
    [cells[3], cells[4]] = describeGroups(report);
    const expected = await onnxRuntime(model, input, join(scratch, 'ort'));
    runPare(pare, 'run', model, '--input', input, '--force', '-o', join(scratch, 'own'));
    cells[1] = within(relativeError(onlyArray(join(scratch, 'own')), expected), 'pare run');
    const back = join(scratch, 'back.onnx');
    runPare(pare, 'convert', model, '-o', back, '--force');
    cells[2] = within(relativeError(await onnxRuntime(back, input, join(scratch, 'again')), expected), 'written back');
  } catch (error) {
    ++failures;
    cells[4] = `FAILED: ${error.message}`;
  }
  row(name, ...cells);
  rmSync(join(scratch, 'own'), {recursive: true, force: true});
}
finish(models.length - failures, failures);

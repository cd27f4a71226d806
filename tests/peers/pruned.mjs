// Every exported architecture pruned, by every compensation that needs no data: see pruned.sh.
//   node pruned.mjs PARE DIRECTORY [NAME…]
import {rmSync} from 'node:fs';
import {join} from 'node:path';
import {relativeError} from './npy.mjs';
import {finish, modelsIn, onlyArray, onnxRuntime, runPare, scratch, within} from './peer.mjs';

const [pare, directory, ...names] = process.argv.slice(2);
const methods = (process.env.METHODS ?? 'none most-sim nnls nmf gaussian ot synthetic').split(' ');
const attention = /^(vit|swin)/;  // the width of the whole network is one stream that the positions or windows freeze
const models = modelsIn(directory, names);
let failures = 0, passed = 0;
const row = (...cells) => console.log(cells.map((cell, i) => String(cell).padEnd([28, 12, 10, 10, 9][i] ?? 0)).join(' ').trimEnd());
row('model', 'method', 'removed', 'vs ORT', 'seconds', '');
for (const name of models)
  for (const method of methods) {
    const model = join(directory, `${name}.onnx`), input = join(directory, `${name.split('.')[0]}.input.npy`);
    const cells = ['-', '-', '-', ''];
    try {
      const slim = join(scratch, 'slim.onnx');
      // What costs by the step makes few: it is the graph that is tested here.
      const few = {synthetic: ['--samples', '2', '--distill-steps', '1'], nmf: ['--nmf-iterations', '1']}[method] ?? [];
      const report = JSON.parse(runPare(pare, 'prune', model, '--channels', '0.3', '--compensate', method, ...few, '--json', '-q', '--force', '-o', slim));
      const removed = 1 - report.after.parameters / report.before.parameters;
      cells[0] = `${(100 * removed).toFixed(1)} %`;
      cells[2] = report.seconds.method.toFixed(1);
      const silent = report.groups.filter((group) => group.kept === group.total && !group.reason);
      if (silent.length > 0) throw new Error(`groups left alone without a reason: ${silent.map((group) => group.name)}`);
      runPare(pare, 'run', slim, '--input', input, '--force', '-o', join(scratch, 'own'));
      cells[1] = within(relativeError(onlyArray(join(scratch, 'own')), await onnxRuntime(slim, input, join(scratch, 'ort'))), 'pare run');
      if (removed < (attention.test(name) ? 0.05 : 0.25)) throw new Error(`only ${cells[0]} of the parameters are gone`);
      ++passed;
    } catch (error) {
      ++failures;
      cells[3] = `FAILED: ${error.message}`;
    }
    row(name, method, ...cells);
    rmSync(join(scratch, 'own'), {recursive: true, force: true});
  }
finish(passed, failures);

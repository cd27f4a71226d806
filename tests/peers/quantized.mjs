// Quantised models in ONNX Runtime: see quantized.sh.
//   node quantized.mjs PARE ROOT [MODEL.onnx…]
import {existsSync, rmSync} from 'node:fs';
import {join, resolve} from 'node:path';
import {writeNpy} from './npy.mjs';
import {finish, onlyArray, onnxRuntime, runPare, scratch} from './peer.mjs';

const [pare, root, ...given] = process.argv.slice(2);
const shared = resolve(process.env.PARE_SHARED ?? join(root, '../shared'), 'data');
const real = ['mobilenetv2.imagenet.onnx', 'squeezenet1.1.imagenet.onnx'].map((file) => join(shared, file));
const built = {'lenet-5': [1, 1, 28, 28], resnet20: [1, 3, 32, 32], mobilenetv1: [1, 3, 32, 32]};
const models = given.length > 0 ? given : [...Object.keys(built), ...real.filter(existsSync)];
for (const file of given.length > 0 ? [] : real.filter((path) => !existsSync(path))) console.log(`skip  ${file}: it is not on this machine`);

const forms = {
  int8: [],
  symmetric: ['--activations', 'symmetric'],
  int4: ['--weights', 'int4', '--activations', 'none'],
  'int4 in blocks': ['--weights', 'int4', '--activations', 'none', '--block', '16'],
};
// The same numbers in every run, near those of pictures.
function noise(count) {
  let state = 1;
  return Float32Array.from({length: count}, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 31 - 1;
  });
}

// The largest difference in steps: 255ths of the range of the output.
function steps(own, peer) {
  let low = Infinity, high = -Infinity, far = 0;
  peer.data.forEach((value, i) => {
    low = Math.min(low, value), high = Math.max(high, value), far = Math.max(far, Math.abs(value - own.data[i]));
  });
  return far / ((high - low) / 255 || 1);
}

let passed = 0, failures = 0;
const row = (...cells) => console.log(cells.map((cell, i) => String(cell).padEnd([30, 16, 14][i] ?? 0)).join(' ').trimEnd());
row('model', 'form', 'steps from ORT');
for (const model of models)
  for (const [form, flags] of Object.entries(forms)) {
    const name = model.split('/').pop();
    try {
      const quantized = join(scratch, 'quantized.onnx'), input = join(scratch, 'input.npy'), own = join(scratch, 'own');
      rmSync(own, {recursive: true, force: true});
      const dims = built[model] ?? [1, 3, 224, 224];
      writeNpy(input, {type: 'float32', dims, data: noise(dims.reduce((a, b) => a * b))});
      const source = built[model] ? ['--arch', model] : [model];
      // Made of noise: here the form is tested, not the accuracy.
      runPare(pare, 'quantize', ...source, ...flags, '--images', 'pink', '--samples', '8', '--force', '-q', '-o', quantized);
      runPare(pare, 'run', quantized, '--input', input, '--force', '-o', own);
      const far = steps(onlyArray(own), await onnxRuntime(quantized, input, join(scratch, 'ort')));
      // One flipped rounding moves all that follows: on noise ONNX Runtime's integers and its floats are 15 steps apart in
      // MobileNetV2 themselves.
      const most = built[model] ? 2 : 25;
      if (!(far <= most)) throw new Error(`${far.toFixed(2)} steps from ONNX Runtime, more than ${most}`);
      row(name, form, far.toFixed(3));
      ++passed;
    } catch (error) {
      row(name, form, `FAILED: ${error.message}`);
      ++failures;
    }
  }
finish(passed, failures);

#include "pare/workflow/onnx_runtime.h"

#include <ATen/ATen.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "pare/core/options.h"
#include "pare/error.h"
#include "pare/ops/op.h"
#include "pare/run.h"

namespace pare {

namespace fs = std::filesystem;

namespace {

// Answers a line with a line: "version" with its version, a model to open with its number, a number with the seconds of
// a run of that model, a model to profile with the seconds of its nodes.
constexpr const char* kServer = R"js(
const require_ = require('module').createRequire(process.argv[1] + '/');
const ort = require_('onnxruntime-node');
const arrays = {float32: Float32Array, float64: Float64Array, int64: BigInt64Array, int32: Int32Array, uint8: Uint8Array,
  bool: Uint8Array};
const lines = require('readline').createInterface({input: process.stdin});
const models = [];
const answer = (text) => process.stdout.write(String(text).replace(/\n/g, ' ') + '\n');
const version = () => require_('onnxruntime-node/package.json').version;
async function session_of({file, inputs, threads}, more) {
  const session = await ort.InferenceSession.create(file, {
    intraOpNumThreads: threads, interOpNumThreads: 1, executionMode: 'sequential', logSeverityLevel: 3, ...more});
  const feeds = {};
  for (const {name, type, dims} of inputs) {
    const data = new arrays[type](dims.reduce((a, b) => a * b, 1));
    if (type.startsWith('float')) for (let i = 0; i < data.length; ++i) data[i] = Math.random() * 2 - 1;
    feeds[name] = new ort.Tensor(type, data, dims);
  }
  await session.run(feeds);
  return {session, feeds};
}
async function open(model) {
  return models.push(await session_of(model, {})) - 1;
}
async function profile(model) {
  const fs = require('fs'), path = require('path');
  const prefix = model.file + '-profile';
  const {session, feeds} = await session_of(model, {enableProfiling: true, profileFilePrefix: prefix});
  const end = Date.now() + 2000;
  for (let i = 0; i < 10 || (i < 200 && Date.now() < end); ++i) await session.run(feeds);
  session.endProfiling();
  await session.release();
  const files = fs.readdirSync(path.dirname(prefix)).filter(name => name.startsWith(path.basename(prefix)));
  const times = {};
  for (const {cat, name, dur, args} of JSON.parse(fs.readFileSync(path.join(path.dirname(prefix), files[0]), 'utf8')))
    if (cat === 'Node' && name.endsWith('_kernel_time'))
      (times[name] ??= {name: name.slice(0, -12), op: args.op_name, taken: []}).taken.push(dur);
  for (const name of files) fs.unlinkSync(path.join(path.dirname(prefix), name));
  return JSON.stringify(Object.values(times).map(({name, op, taken}) => {
    const sorted = taken.sort((a, b) => a - b);
    return {name, op, seconds: sorted[Math.floor(sorted.length / 10)] / 1e6};
  }));
}
async function run(index) {
  const {session, feeds} = models[index];
  const start = process.hrtime.bigint();
  await session.run(feeds);
  return Number(process.hrtime.bigint() - start) / 1e9;
}
(async () => {
  for await (const line of lines) {
    try {
      const request = JSON.parse(line);
      const work = {number: run, object: request.profile ? profile : open, string: version}[typeof request];
      answer(await work(request.profile ?? request));
    } catch (error) {
      answer('error ' + error.message);
    }
  }
})();
)js";

// As onnxruntime-node spells the types of its tensors.
std::string type_name(const std::string& input, const at::Tensor& value) {
  switch (value.scalar_type()) {
    case at::kFloat: return "float32";
    case at::kDouble: return "float64";
    case at::kLong: return "int64";
    case at::kInt: return "int32";
    case at::kByte: return "uint8";
    case at::kBool: return "bool";
    default:
      throw Error(ErrorKind::failed, "ONNX Runtime", "input {} is {}, a type that is not handed over here", input,
                  to_string(TensorType{value.scalar_type(), value.sizes().vec()}));
  }
}

nlohmann::json opening(const OnnxRuntime::Model& model, int64_t batch, int threads) {
  auto inputs = nlohmann::json::array();
  const auto values = random_inputs(model.graph, batch, 0);
  for (size_t i = 0; i < values.size(); ++i) {
    const std::string& name = model.graph.inputs[i].name;
    inputs.push_back({{"name", name}, {"type", type_name(name, values[i])}, {"dims", values[i].sizes().vec()}});
  }
  return {{"file", fs::absolute(model.file).string()}, {"inputs", inputs}, {"threads", threads}};
}

}  // namespace

fs::path OnnxRuntime::find() {
  std::vector<fs::path> places = {"data/node_modules", "node_modules"};
  if (const char* data = std::getenv("PARE_DATA")) places.insert(places.begin(), fs::path(data) / "node_modules");
  std::error_code ignored;
  for (const auto& place : places)
    if (fs::exists(place / "onnxruntime-node" / "package.json", ignored)) return fs::absolute(place);
  return {};
}

OnnxRuntime::OnnxRuntime(const fs::path& modules, int64_t batch, int threads) : batch_(batch), threads_(threads) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    throw Error(ErrorKind::failed, "ONNX Runtime", "no socket for it could be made");
  socket_ = ends[0];
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  std::vector<std::string> words = {"node", "-e", kServer, modules.string()};
  std::vector<char*> raw;
  for (auto& word : words) raw.push_back(word.data());
  raw.push_back(nullptr);
  const int failed = ::posix_spawnp(&child_, "node", &actions, nullptr, raw.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  try {
    if (failed != 0) throw Error(ErrorKind::failed, "ONNX Runtime", "node cannot be started");
    version_ = ask("\"version\"");
  } catch (...) {
    ::close(socket_);
    if (failed == 0) ::waitpid(child_, nullptr, 0);
    throw;
  }
}

OnnxRuntime::~OnnxRuntime() {
  ::close(socket_);  // the end of its input ends it
  ::waitpid(child_, nullptr, 0);
}

std::string OnnxRuntime::ask(const std::string& line) {
  const std::string text = line + "\n";
  size_t sent = 0;
  while (sent < text.size()) {
    const ssize_t count = ::send(socket_, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
    if (count <= 0) throw Error(ErrorKind::failed, "ONNX Runtime", "has ended");
    sent += static_cast<size_t>(count);
  }
  size_t end = 0;
  while ((end = unread_.find('\n')) == std::string::npos) {
    char buffer[4096];
    const ssize_t count = ::recv(socket_, buffer, sizeof buffer, 0);
    if (count <= 0) throw Error(ErrorKind::failed, "ONNX Runtime", "ended before it answered");
    unread_.append(buffer, static_cast<size_t>(count));
  }
  std::string answer = unread_.substr(0, end);
  unread_.erase(0, end + 1);
  if (answer.starts_with("error ")) throw Error(ErrorKind::failed, "ONNX Runtime", answer.substr(6));
  return answer;
}

size_t OnnxRuntime::add(const Model& model) {
  // The name of a file that is not UTF-8 is refused there by name.
  const std::string request = json_text(opening(model, batch_, threads_));
  return std::strtoul(ask(request).c_str(), nullptr, 10);
}

std::vector<OnnxRuntime::NodeTime> OnnxRuntime::node_times(const Model& model) {
  const nlohmann::json request = {{"profile", opening(model, batch_, threads_)}};
  std::vector<NodeTime> times;
  for (const auto& node : nlohmann::json::parse(ask(json_text(request))))
    times.push_back({node.at("name"), node.at("op"), node.at("seconds")});
  return times;
}

double OnnxRuntime::run(size_t model) { return std::strtod(ask(std::to_string(model)).c_str(), nullptr); }

}  // namespace pare

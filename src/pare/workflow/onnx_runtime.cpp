#include "pare/workflow/onnx_runtime.h"

#include <ATen/ATen.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "pare/core/error.h"
#include "pare/exec/program.h"

namespace pare {

namespace fs = std::filesystem;

namespace {

// Answers the first line with "ready VERSION", every later one, a model's number, with seconds.
constexpr const char* kServer = R"js(
const require_ = require('module').createRequire(process.argv[1] + '/');
const ort = require_('onnxruntime-node');
const arrays = {float32: Float32Array, float64: Float64Array, int64: BigInt64Array, int32: Int32Array};
const lines = require('readline').createInterface({input: process.stdin});
const models = [];
const answer = (text) => process.stdout.write(String(text).replace(/\n/g, ' ') + '\n');
async function open(request) {
  for (const {file, inputs} of request.models) {
    const session = await ort.InferenceSession.create(file, {
      intraOpNumThreads: request.threads, interOpNumThreads: 1, executionMode: 'sequential', logSeverityLevel: 3});
    const feeds = {};
    for (const {name, type, dims} of inputs) {
      const data = new arrays[type](dims.reduce((a, b) => a * b, 1));
      if (type.startsWith('float')) for (let i = 0; i < data.length; ++i) data[i] = Math.random() * 2 - 1;
      feeds[name] = new ort.Tensor(type, data, dims);
    }
    models.push({session, feeds});
  }
  return 'ready ' + require_('onnxruntime-node/package.json').version;
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
      answer(typeof request === 'number' ? await run(request) : await open(request));
    } catch (error) {
      answer('error ' + error.message);
    }
  }
})();
)js";

std::string type_name(const at::Tensor& tensor) {
  switch (tensor.scalar_type()) {
    case at::kDouble: return "float64";
    case at::kLong: return "int64";
    case at::kInt: return "int32";
    default: return "float32";
  }
}

nlohmann::json opening(const std::vector<OnnxRuntime::Model>& models, int64_t batch, int threads) {
  nlohmann::json request = {{"threads", threads}, {"models", nlohmann::json::array()}};
  for (const auto& model : models) {
    auto inputs = nlohmann::json::array();
    const auto values = random_inputs(model.graph, batch, 0);
    for (size_t i = 0; i < values.size(); ++i)
      inputs.push_back(
          {{"name", model.graph.inputs[i].name}, {"type", type_name(values[i])}, {"dims", values[i].sizes().vec()}});
    request["models"].push_back({{"file", fs::absolute(model.file).string()}, {"inputs", inputs}});
  }
  return request;
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

OnnxRuntime::OnnxRuntime(const fs::path& modules, const std::vector<Model>& models, int64_t batch, int threads) {
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
    version_ = ask(opening(models, batch, threads).dump()).substr(std::string("ready ").size());
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

double OnnxRuntime::run(size_t model) { return std::strtod(ask(std::to_string(model)).c_str(), nullptr); }

}  // namespace pare

// The process group and the store on libtorch's c10d: Gloo between the ranks, a TCP store at rank 0.
#define USE_C10D_GLOO
#include <ATen/ATen.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <cstdlib>
#include <future>
#include <thread>

#include "pare/dist/heartbeat.h"
#include "pare/dist/process_group.h"
#include "pare/dist/store.h"
#include "pare/error.h"

namespace pare {

namespace {

using std::chrono::milliseconds;
constexpr milliseconds kJoining = std::chrono::minutes(2);
constexpr milliseconds kCollective = std::chrono::hours(24 * 7);  // a slow rank is waited for; a lost one is noticed

c10::intrusive_ptr<c10d::TCPStore> open_tcp_store(const RankPlace& place, bool server) {
  c10d::TCPStoreOptions options;
  options.port = place.port;
  options.isServer = server;
  options.waitWorkers = false;
  options.timeout = kJoining;
  try {
    return c10::make_intrusive<c10d::TCPStore>(place.address, options);
  } catch (const std::exception& error) {
    const std::string text = error.what();
    throw Error(ErrorKind::failed, fmt::format("{}:{}", place.address, place.port), "{}: {}",
                server ? "cannot be listened at" : "no answer from rank 0", text.substr(0, text.find('\n')));
  }
}

class C10dStore : public Store {
 public:
  explicit C10dStore(c10::intrusive_ptr<c10d::TCPStore> store) : store_(std::move(store)) {}

  void set(const std::string& key, const std::string& value) override {
    guarded([&] { store_->set(key, {value.begin(), value.end()}); });
  }
  std::optional<std::string> get(const std::string& key) override {
    std::optional<std::string> result;
    guarded([&] {
      if (!store_->check({key})) return;
      const auto bytes = store_->get(key);
      result = std::string(bytes.begin(), bytes.end());
    });
    return result;
  }
  int64_t add(const std::string& key, int64_t value) override {
    int64_t result = 0;
    guarded([&] { result = store_->add(key, value); });
    return result;
  }

 private:
  template <typename F>
  void guarded(const F& call) {
    try {
      call();
    } catch (const std::exception& error) {
      throw Error(ErrorKind::failed, fmt::format("{}:{}", store_->getHost(), store_->getPort()),
                  "the store of rank 0 is gone");
    }
  }

  c10::intrusive_ptr<c10d::TCPStore> store_;
};

// This host's own address on the way to rank 0, as the routes have it; no packet is sent. Empty when there is no way.
std::string address_towards(const RankPlace& place) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* list = nullptr;
  if (::getaddrinfo(place.address.c_str(), std::to_string(place.port).c_str(), &hints, &list) != 0) return "";
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owned(list, &::freeaddrinfo);
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    const int socket = ::socket(entry->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (socket < 0) continue;
    sockaddr_storage own{};
    socklen_t length = sizeof own;
    char text[NI_MAXHOST] = {};
    const bool found = ::connect(socket, entry->ai_addr, entry->ai_addrlen) == 0 &&
                       ::getsockname(socket, reinterpret_cast<sockaddr*>(&own), &length) == 0 &&
                       ::getnameinfo(reinterpret_cast<const sockaddr*>(&own), length, text, sizeof text, nullptr, 0,
                                     NI_NUMERICHOST) == 0;
    ::close(socket);
    if (found) return text;
  }
  return "";
}

// GLOO_SOCKET_IFNAME as with PyTorch; else the address by which rank 0 is reached says which interface is meant. A
// host's own name often stands for an address that only itself can reach.
std::shared_ptr<gloo::transport::Device> device_for(const RankPlace& place) {
  using Group = c10d::ProcessGroupGloo;
  if (const char* interface = std::getenv("GLOO_SOCKET_IFNAME")) return Group::createDeviceForInterface(interface);
  const std::string own = address_towards(place);
  return own.empty() ? Group::createDefaultDevice() : Group::createDeviceForHostname(own);
}

class Gloo : public ProcessGroup {
 public:
  explicit Gloo(const RankPlace& place) : place_(place) {
    store_ = open_tcp_store(place, place.rank == 0);
    wait_for_all();
    heartbeat_ = std::make_unique<Heartbeat>(connect_store(place), "", place.rank, place.size);
    connect();
    barrier();
  }

  ~Gloo() override {
    // Threads of a group that failed wait for a rank that will not come: they end with the process.
    if (failed_) {
      (void)group_.release();
      if (heartbeat_) heartbeat_->leave(failure_);
    } else if (heartbeat_) {
      heartbeat_->leave("");
    }
    heartbeat_.reset();
    if (place_.rank == 0) wait_for_others();
    if (failed_) (void)store_.release();
  }

  int rank() const override { return place_.rank; }
  int size() const override { return place_.size; }

  std::unique_ptr<Pending> begin_sum(const at::Tensor& tensor) override {
    std::vector<at::Tensor> tensors = {tensor};
    return std::make_unique<Call>(*this, started([&] { return group_->allreduce(tensors); }));
  }

  void broadcast(const at::Tensor& tensor) override {
    std::vector<at::Tensor> tensors = {tensor};
    finish(*started([&] { return group_->broadcast(tensors); }));
  }

  void leave(const std::string& reason) override { fail(fmt::format("rank {} ended: {}", place_.rank, reason)); }

 private:
  using Work = c10d::Work;

  struct Call : Pending {
    Call(Gloo& group, c10::intrusive_ptr<Work> work) : group(group), work(std::move(work)) {}
    void wait() override { group.finish(*work); }
    Gloo& group;
    c10::intrusive_ptr<Work> work;
  };

  // By a thread, because a rank that cannot come would be waited for: it is left to itself when the others are in
  // trouble.
  void connect() {
    using Group = c10::intrusive_ptr<c10d::ProcessGroupGloo>;
    auto options = c10d::ProcessGroupGloo::Options::create(kCollective);
    options->devices.push_back(device_for(place_));
    options->threads = 2;
    std::packaged_task<Group()> task([options, store = store_, place = place_] {
      return c10::make_intrusive<c10d::ProcessGroupGloo>(store, place.rank, place.size, options);
    });
    std::future<Group> made = task.get_future();
    std::thread(std::move(task)).detach();
    while (made.wait_for(milliseconds(100)) != std::future_status::ready)
      if (const auto trouble = heartbeat_->trouble()) throw lost(*trouble);
    try {
      group_ = made.get();
    } catch (const std::exception& error) {
      const std::string text = error.what();
      const std::string why = fmt::format("could not join the others: {}", text.substr(0, text.find('\n')));
      fail(fmt::format("rank {} {}", rank(), why));
      throw Error(ErrorKind::failed, name(), why);
    }
  }

  template <typename F>
  c10::intrusive_ptr<Work> started(const F& call) {
    try {
      return call();
    } catch (const std::exception& error) {
      throw broken(error.what());
    }
  }

  // In slices, between which the others are looked after.
  void finish(Work& work) {
    while (true) {
      try {
        work.wait(milliseconds(500));
        return;
      } catch (const std::exception& error) {
        if (work.isCompleted() && !work.isSuccess()) throw broken(error.what());
        if (work.isCompleted()) return;
      }
      if (const auto trouble = heartbeat_->trouble()) throw lost(*trouble);
    }
  }

  // A connection broke: the heartbeats say whose.
  Error broken(const std::string& why) {
    const auto trouble = heartbeat_->verdict();
    return lost(trouble ? *trouble : "a connection broke: " + why.substr(0, why.find('\n')));
  }

  // The others are told, and this is to be thrown.
  Error lost(const std::string& why) {
    fail(why);
    return {ErrorKind::failed, name(), why};
  }

  std::string name() const { return fmt::format("rank {} of {}", rank(), size()); }

  void fail(const std::string& why) {
    if (failed_) return;
    failed_ = true;
    failure_ = why;
    heartbeat_->leave(why);
  }

  void wait_for_all() {
    const auto end = std::chrono::steady_clock::now() + kJoining;
    store_->set("here/" + std::to_string(place_.rank), {1});
    for (int rank = 0; rank < place_.size; ++rank)
      while (!store_->check({"here/" + std::to_string(rank)})) {
        if (std::chrono::steady_clock::now() > end)
          throw Error(ErrorKind::failed, fmt::format("rank {} of {}", place_.rank, place_.size),
                      "rank {} did not join within {} s", rank, kJoining.count() / 1000);
        std::this_thread::sleep_for(milliseconds(20));
      }
  }

  // The store goes with rank 0, so it goes last, but it does not wait for the lost.
  void wait_for_others() {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(5);
    try {
      for (int rank = 1; rank < place_.size; ++rank)
        while (!store_->check({"left/" + std::to_string(rank)}) && std::chrono::steady_clock::now() < end)
          std::this_thread::sleep_for(milliseconds(20));
    } catch (const std::exception&) {  // nobody is left to care
    }
  }

  RankPlace place_;
  c10::intrusive_ptr<c10d::TCPStore> store_;
  c10::intrusive_ptr<c10d::ProcessGroupGloo> group_;
  std::unique_ptr<Heartbeat> heartbeat_;
  bool failed_ = false;
  std::string failure_;
};

}  // namespace

TcpStore serve_store(const RankPlace& place) {
  auto store = open_tcp_store(place, true);
  const uint16_t port = store->getPort();
  return {std::make_unique<C10dStore>(std::move(store)), port};
}

std::unique_ptr<Store> connect_store(const RankPlace& place) {
  return std::make_unique<C10dStore>(open_tcp_store(place, false));
}

std::unique_ptr<ProcessGroup> join_by_gloo(const RankPlace& place) { return std::make_unique<Gloo>(place); }

}  // namespace pare

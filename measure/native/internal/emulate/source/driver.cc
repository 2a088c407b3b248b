// This file implements the functions of the CUDA driver that the engine calls, on the processor. It
// emulates up to eight GPUs (LLMPROF_EMULATED_GPUS) of compute capability 10.0. The thread that queues
// work does it at once. Only fills of the default stream are done as late as the driver may do them:
// when that stream is synchronized. Memory is filled with NaN, and ends at an inaccessible page.
#include <dlfcn.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <functional>
#include <map>
#include <mutex>
#include <sstream>
#include <string>
#include <vector>

#include "driver.h"

typedef uint64_t Address;
enum { OK = 0, INVALID = 1, NO_MEMORY = 2, NO_DEVICE = 101, INVALID_IMAGE = 200, NOT_FOUND = 500, PEER_ENABLED = 704, FAILED = 719 };
static const uint64_t total_memory = 4ull << 30;
static const int most_shared = 227 << 10; // the limit of a block's dynamic shared memory

namespace {

struct Graph {
  std::vector<std::function<void()>> work;
};
struct Stream {
  Graph *capture = nullptr;
};
struct Event {
  timespec at;
};
struct Module {
  std::vector<std::string> keys;            // of the part that launches kernels, of that with all kernels, of the others
  std::map<std::string, std::string> parts; // [kernel]
  std::map<std::string, void *> libraries;  // [part]
  std::mutex lock;
};
struct Function {
  Module *module;
  std::string name;
  void (*call)(void **);
  int (*sizes)(uint32_t *);
  int (*launch)(void (*)(void **), const uint32_t *, const uint32_t *, uint32_t, uint32_t, bool, void **);
  uint32_t shared; // the limit of dynamic shared memory that the caller set
  bool large; // Clusters of more than 8 blocks are allowed.
};

struct Device {
  uint64_t used;
  bool peers[8]; // the GPUs whose memory this one may access
  bool failed;   // A kernel of this GPU trapped, so every later call fails.
  std::vector<std::function<void()>> late; // fills of the default stream, which other streams do not wait for
};
Device devices[8];
thread_local Device *current = devices;

struct Block {
  void *map;
  size_t mapped, size;
  Device *device;
};
std::mutex lock;
std::map<Address, Block> blocks;

// from_environment returns the number in an environment variable, or a default.
int from_environment(const char *name, int none) {
  const char *text = getenv(name);
  return text ? atoi(text) : none;
}

int status() { return current->failed ? FAILED : OK; }

const size_t page = 4096;

int take(Address *p, uint64_t size) {
  std::lock_guard<std::mutex> guard(lock);
  if (size == 0) return INVALID;
  if (current->used + size > total_memory) return NO_MEMORY;
  size_t room = (size + page - 1) / page * page;
  char *m = (char *)mmap(nullptr, room + page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (m == MAP_FAILED) return NO_MEMORY;
  mprotect(m + room, page, PROT_NONE);
  *p = (Address)(m + room - (size + 15) / 16 * 16); // The kernels load 16 bytes at a time.
  blocks[*p] = {m, room + page, size, current};
  current->used += size;
  memset((void *)*p, 0xff, size);
  return OK;
}

// settle does the fills that are still queued in the default stream of this GPU.
void settle() {
  static std::mutex settling; // A caller that had to wait for the lock finds all fills done, those of other threads included.
  std::lock_guard<std::mutex> wait(settling);
  std::vector<std::function<void()>> late;
  {
    std::lock_guard<std::mutex> guard(lock);
    late.swap(current->late);
  }
  for (auto &fill : late) fill();
}

void fill32(Address p, uint32_t v, uint64_t n) {
  for (uint64_t i = 0; i < n; i++) ((uint32_t *)p)[i] = v;
}

// opened loads a shared library. Each module has a copy of its own, for its kernels' static memory.
void *opened(const std::string &library) {
  static std::atomic<int> number;
  const char *dir = getenv("TMPDIR");
  std::string path = std::string(dir ? dir : "/tmp") + "/emulated-" + std::to_string(getpid()) + "-" + std::to_string(number++) + ".so";
  FILE *f = fopen(path.c_str(), "wb");
  if (!f) return nullptr;
  bool whole = fwrite(library.data(), 1, library.size(), f) == library.size();
  whole = fclose(f) == 0 && whole;
  void *out = whole ? dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL) : nullptr;
  if (!out) fprintf(stderr, "emulated GPU: %s\n", whole ? dlerror() : "the module could not be written");
  unlink(path.c_str());
  return out;
}

// ready makes and loads the part of a function at its first launch.
bool ready(Function *f) {
  Module *m = f->module;
  std::lock_guard<std::mutex> guard(m->lock);
  if (f->call) return true;
  const std::string &part = m->parts[f->name];
  void *&library = m->libraries[part];
  if (!library) {
    std::string made = emulated_library(m->keys[0], part);
    if (made.empty()) made = emulated_library(m->keys[0], m->keys[1]);
    library = opened(made);
  }
  if (!library) return m->libraries.erase(part), false;
  auto find = [&](const std::string &name) { return dlsym(library, name.c_str()); };
  f->sizes = (decltype(f->sizes))find("emulated_sizes_" + f->name);
  f->launch = (decltype(f->launch))find("emulated_launch");
  f->call = (decltype(f->call))find("emulated_call_" + f->name);
  return f->call && f->sizes && f->launch;
}

} // namespace

// queue does work at once, or records it if the stream is being captured.
void emulated_queue(void *stream, std::function<void()> work) {
  Stream *s = (Stream *)stream;
  if (s && s->capture)
    s->capture->work.push_back(std::move(work));
  else
    work();
}

extern "C" {

int cuInit(unsigned) { return OK; }
int cuDriverGetVersion(int *v) { return *v = 12080, OK; }
int cuGetErrorName(int code, const char **s) {
  *s = code == NO_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : code == FAILED ? "CUDA_ERROR_LAUNCH_FAILED" : "CUDA_ERROR_EMULATED";
  return OK;
}
int cuGetErrorString(int, const char **s) { return *s = "refused by the emulated GPU", OK; }
int cuDeviceGetCount(int *n) { return *n = from_environment("LLMPROF_EMULATED_GPUS", 8), OK; }
int cuDeviceGet(int *d, int ordinal) { return *d = ordinal, ordinal >= 0 && ordinal < 8 ? OK : NO_DEVICE; }
int cuDeviceGetName(char *s, int n, int d) {
  return snprintf(s, n, d && d == from_environment("LLMPROF_EMULATED_OTHER", 0) ? "other emulated GPU" : "emulated GPU"), OK;
}
int cuDeviceGetUuid_v2(char *u, int d) { return memset(u, 0xe0 + d, 16), OK; }
int cuDeviceTotalMem_v2(uint64_t *n, int) { return *n = total_memory, OK; }
static constexpr int multiprocessors = 6;
int cuDeviceGetAttribute(int *v, int attribute, int) {
  static const std::map<int, int> values = {{75, from_environment("LLMPROF_EMULATED_MAJOR", 10)}, {76, 0}, {16, multiprocessors}, {38, 4 << 20}, {81, 228 << 10}, {97, most_shared}};
  auto found = values.find(attribute);
  return found == values.end() ? INVALID : (*v = found->second, OK);
}
int cuDevicePrimaryCtxRetain(Device **c, int d) { return *c = devices + d, OK; }
int cuDevicePrimaryCtxRelease_v2(int d) { return devices[d].failed = false, OK; }
int cuCtxSetCurrent(Device *c) { return current = c, OK; }
// LLMPROF_EMULATED_NO_PEER is the index of a GPU whose memory no other GPU can access.
int cuDeviceCanAccessPeer(int *can, int, int peer) { return *can = !peer || peer != from_environment("LLMPROF_EMULATED_NO_PEER", 0), OK; }
int cuCtxEnablePeerAccess(Device *c, unsigned flags) {
  bool &on = current->peers[c - devices];
  if (flags || c == current) return INVALID;
  return on ? PEER_ENABLED : (on = true, OK);
}

int cuMemGetInfo_v2(uint64_t *free, uint64_t *total) {
  std::lock_guard<std::mutex> guard(lock);
  return *total = total_memory, *free = total_memory - current->used, OK;
}
int cuMemAlloc_v2(Address *p, uint64_t n) { return take(p, n); }
int cuMemFree_v2(Address p) {
  settle();
  std::lock_guard<std::mutex> guard(lock);
  auto b = blocks.find(p);
  if (b == blocks.end()) return INVALID;
  munmap(b->second.map, b->second.mapped);
  b->second.device->used -= b->second.size;
  blocks.erase(b);
  return OK;
}
int cuMemHostAlloc(void **p, uint64_t n, unsigned) { return (*p = malloc(n)) ? OK : NO_MEMORY; }
int cuMemFreeHost(void *p) { return free(p), OK; }
int cuMemcpyHtoD_v2(Address to, const void *from, uint64_t n) { return settle(), memcpy((void *)to, from, n), status(); }
int cuMemcpyDtoH_v2(void *to, Address from, uint64_t n) { return settle(), memcpy(to, (void *)from, n), status(); }
int cuMemcpyHtoDAsync_v2(Address to, const void *from, uint64_t n, void *s) { return emulated_queue(s, [=] { memcpy((void *)to, from, n); }), OK; }
int cuMemcpyDtoDAsync_v2(Address to, Address from, uint64_t n, void *s) { return emulated_queue(s, [=] { memcpy((void *)to, (void *)from, n); }), OK; }
int cuMemsetD8_v2(Address p, uint8_t v, uint64_t n) {
  std::lock_guard<std::mutex> guard(lock);
  return current->late.push_back([=] { memset((void *)p, v, n); }), OK;
}
int cuMemsetD8Async(Address p, uint8_t v, uint64_t n, void *s) { return emulated_queue(s, [=] { memset((void *)p, v, n); }), OK; }
int cuMemsetD32Async(Address p, uint32_t v, uint64_t n, void *s) { return emulated_queue(s, [=] { fill32(p, v, n); }), OK; }

int cuStreamCreate(Stream **s, unsigned) { return *s = new Stream, OK; }
int cuStreamDestroy_v2(Stream *s) { return delete s, OK; }
int cuStreamSynchronize(Stream *s) {
  if (!s) settle();
  return s && s->capture ? INVALID : status();
}
int cuEventCreate(Event **e, unsigned) { return *e = new Event(), OK; }
int cuEventDestroy_v2(Event *e) { return delete e, OK; }
int cuEventRecord(Event *e, void *s) { return emulated_queue(s, [=] { clock_gettime(CLOCK_MONOTONIC, &e->at); }), OK; }
int cuEventSynchronize(Event *) { return OK; }
int cuEventElapsedTime(float *ms, Event *a, Event *b) {
  *ms = (float)((b->at.tv_sec - a->at.tv_sec) * 1e3 + (b->at.tv_nsec - a->at.tv_nsec) * 1e-6);
  return OK;
}

int cuStreamBeginCapture_v2(Stream *s, int) { return s->capture = new Graph, OK; }
int cuStreamEndCapture(Stream *s, Graph **g) { return *g = s->capture, s->capture = nullptr, OK; }
int cuGraphInstantiateWithFlags(Graph **exec, Graph *g, uint64_t) { return *exec = new Graph(*g), OK; }
int cuGraphDestroy(Graph *g) { return delete g, OK; }
int cuGraphExecDestroy(Graph *g) { return delete g, OK; }
int cuGraphLaunch(Graph *g, void *) {
  for (auto &w : g->work) w();
  return status();
}

// The code is the length of a listing, followed by the listing (compiler.cc).
int cuModuleLoadData(Module **m, const void *image) {
  uint64_t n;
  memcpy(&n, (const char *)image + 8, 8);
  std::istringstream listing(std::string((const char *)image + 16, n));
  *m = new Module;
  for (std::string line, key, kernel; std::getline(listing, line);) {
    std::istringstream words(line);
    words >> key;
    if (!emulated_known(key)) return delete *m, INVALID_IMAGE; // Only the user's cache still has this program.
    (*m)->keys.push_back(key);
    while (words >> kernel) (*m)->parts[kernel] = key;
  }
  return OK;
}
int cuModuleUnload(Module *m) {
  for (auto &l : m->libraries) dlclose(l.second);
  return delete m, OK;
}
int cuModuleGetFunction(Function **f, Module *m, const char *name) {
  if (!m->parts.count(name)) return NOT_FOUND;
  *f = new Function{m, name};
  return OK;
}
// On a GPU a block may use 48 KiB of shared memory, static memory included, unless the host raises the
// limit. The emulator does not know a kernel's static memory, so it requires that the host sets the
// limit for all dynamic memory.
int cuFuncSetAttribute(Function *f, int attribute, int v) {
  if (attribute == 9) return v >= -1 && v <= 100 ? OK : INVALID; // This attribute is the carveout of shared memory.
  if (attribute == 14) return f->large = v, OK; // This attribute allows clusters of more than 8 blocks.
  if (attribute != 8 || v > most_shared) return INVALID;
  return f->shared = v, OK;
}

// cuTensorMapEncodeTiled accepts only what the kernels need (hopper.h).
int cuTensorMapEncodeTiled(uint64_t *map, int type, uint32_t rank, void *at, const uint64_t *size, const uint64_t *stride, const uint32_t *box,
                           const uint32_t *step, int interleave, int swizzle, int, int fill) {
  if ((uint64_t)map % 64 || type != 9 || rank != 3 || (uint64_t)at % 16 || interleave || swizzle != 3 || fill) return INVALID;
  if (stride[0] % 16 || stride[1] % 16 || box[0] * 2 > 128 || box[1] > 256 || box[2] > 256 || step[0] != 1 || step[1] != 1 || step[2] != 1) return INVALID;
  uint64_t out[16] = {(uint64_t)at, size[0], size[1], size[2], stride[0], stride[1], box[0], box[1], box[2]};
  return memcpy(map, out, sizeof out), OK;
}

int cuFuncGetAttribute(int *v, int, Function *) { return *v = 0, OK; }

struct Config { // CUlaunchConfig
  uint32_t grid[3], block[3], shared;
  void *stream;
  const struct {
    int32_t id, padding, value[16];
  } *attributes;
  uint32_t count;
};
int cuOccupancyMaxActiveClusters(int *n, Function *, const Config *c) {
  if (c->count != 1 || c->attributes[0].id != 4) return INVALID;
  return *n = multiprocessors / c->attributes[0].value[0], OK;
}
int cuLaunchKernelEx(const Config *c, Function *f, void **params, void *) {
  Config l = *c;
  if (!ready(f)) return NOT_FOUND;
  if (l.block[0] * l.block[1] * l.block[2] > 1024 || l.grid[1] > 65535 || l.grid[2] > 65535 || l.shared > f->shared) return INVALID;
  uint32_t cluster = 1;
  bool early = false, together = false;
  for (uint32_t i = 0; i < l.count; i++) {
    if (l.attributes[i].id == 4) cluster = l.attributes[i].value[0];
    if (l.attributes[i].id == 2) together = l.attributes[i].value[0];
    if (l.attributes[i].id == 6) early = l.attributes[i].value[0];
  }
  if (cluster < 1 || l.grid[0] % cluster || cluster > (f->large ? 16 : 8)) return INVALID;
  if (together) cluster = l.grid[0] * l.grid[1] * l.grid[2]; // The blocks of a cooperative launch take turns, as those of a cluster do.
  uint32_t sizes[64];
  int n = f->sizes(sizes);
  struct alignas(64) Value {
    uint64_t words[16];
  };
  std::vector<Value> values(n);
  for (int i = 0; i < n; i++) {
    if (!params[i] || sizes[i] > sizeof(Value)) return INVALID;
    memcpy(&values[i], params[i], sizes[i]);
  }
  if (params[n]) return INVALID; // The host's list ends with a null.
  emulated_queue(l.stream, [=]() mutable {
    std::vector<void *> p(n);
    for (int i = 0; i < n; i++) p[i] = &values[i];
    if (!current->failed && !f->launch(f->call, l.grid, l.block, l.shared, cluster, early, p.data())) current->failed = true;
  });
  return status();
}

} // extern "C"

// This file declares the threads of a block, which runtime.h runs.
#include "system.h"

typedef unsigned char u8;
typedef unsigned short bf16;
typedef unsigned int u32;
typedef unsigned long long u64;

struct Index {
  unsigned x, y, z;
};
extern Index threadIdx, blockIdx, blockDim, gridDim;

namespace emulated {

[[noreturn]] void fail(const char *what);

// A Copy is one that cp.async has begun. It is made only when its thread waits for it.
struct Copy {
  void *to;
  const void *from;
  int bytes; // The copy reads so many of size bytes and sets the others to 0.
  u32 size;
  u32 group;
};

enum State { READY, AT_BARRIER, AT_WARP, AT_MBARRIER, AT_CLUSTER, ENDED };

struct Thread {
  void *stack; // the stack pointer of a suspended thread
  Index index; // the thread's index in its block
  int block;   // the index of its block in the cluster
  State state;
  u32 ticket;         // the generation of the barrier or warp that the thread waits for
  int barrier;        // the number of that barrier
  const u64 *mbarrier;
  u32 parity;
  u32 group;   // the group of the next copies
  u32 reached; // the cluster barriers that the thread has reached
  bool waited; // The thread has waited for the previous kernel.
  std::vector<Copy> copies;
};

const int MOST_CLUSTER = 16, MOST_THREADS = 1024, MOST_FIBERS = MOST_THREADS * 4, STACK = 256 << 10, MOST_SHARED = 256 << 10;
const int SHARED_STRIDE = MOST_SHARED + 4096; // the distance of the dynamic memory of two blocks

extern Thread *current;
extern int inside;             // the index of the running block in its cluster
extern u32 cluster;            // the blocks of a cluster
extern bool reversed;          // Threads and blocks run in the reverse order.
extern u8 *shared_end, *shared;

// wait suspends the thread.
void wait(State s);

// look_again yields to other threads before a thread polls again for what another GPU writes.
void look_again();

// trap ends the kernel, as the instruction trap does.
void trap();

inline bool phase_done(const u64 *b, u32 parity) { return (*b >> 63) != parity; }

// arrive implements bar.arrive, and reports whether the thread was the last. If expected is 0, all
// threads that have not ended are expected.
bool arrive(int number, u32 expected);

// barrier implements bar.sync.
void barrier(int number, u32 expected);

// These are the barriers of a cluster. The next one would wait forever for a thread that has ended.
void arrive_at_cluster();
void wait_for_cluster();

// in_cluster is the address in block rank that corresponds to `at` in this block.
u8 *in_cluster(const void *p, u32 rank);

typedef u64 Slots[32][4];

// meet exchanges n bytes among the lanes of mask, which all have to call it.
const Slots &meet(u32 mask, int what, const void *value, int n);

// copy_now makes the copies of all groups before group last.
void copy_now(u32 last);

template <class... A, size_t... I>
inline void apply(void (*kernel)(A...), void **p, std::index_sequence<I...>) {
  kernel(*(A *)p[I]...);
}
template <class... A>
inline void apply(void (*kernel)(A...), void **p) {
  apply(kernel, p, std::index_sequence_for<A...>{});
}
template <class... A>
inline int sizes(void (*)(A...), u32 *out) {
  u32 s[] = {sizeof(A)...};
  memcpy(out, s, sizeof s);
  return sizeof...(A);
}

} // namespace emulated

// This file lets a C++ compiler compile the kernels. It defines the keywords of CUDA C++ that they use,
// and replaces the functions of ptx.cuh. 16-bit values are rounded to nearest even, and products are
// summed in float32, so a kernel's results differ from a GPU's by the order of the sums alone.
#include "half.h"
#include "threads.h"

#define __device__ inline // Several parts of a program may define the same function.
#define __host__
#define __global__ EMULATED_KERNEL
#define __forceinline__
#define __noinline__
#define __launch_bounds__(...)
#define __restrict__
#define __shared__ static thread_local
#define __align__(n) __attribute__((aligned(n)))
#define DYNAMIC_SHARED(name) u8 *name = emulated::shared
#undef INFINITY

struct alignas(8) uint2 {
  u32 x, y;
};
struct alignas(16) uint4 {
  u32 x, y, z, w;
};
struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
inline uint2 make_uint2(u32 x, u32 y) { return {x, y}; }
inline uint4 make_uint4(u32 x, u32 y, u32 z, u32 w) { return {x, y, z, w}; }
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

template <class T, class F>
inline T bits_as(F f) {
  static_assert(sizeof(T) == sizeof(F), "");
  T t;
  memcpy(&t, &f, sizeof t);
  return t;
}
inline float __uint_as_float(u32 v) { return bits_as<float>(v); }
inline float __int_as_float(int v) { return bits_as<float>(v); }
inline u32 __float_as_uint(float v) { return bits_as<u32>(v); }
inline int __float_as_int(float v) { return bits_as<int>(v); }

inline int min(int a, int b) { return a < b ? a : b; }
inline int max(int a, int b) { return a > b ? a : b; }
inline float __expf(float v) { return expf(v); }
inline float __fdividef(float a, float b) { return a / b; }
inline float rsqrtf(float v) { return 1.f / sqrtf(v); }

inline int kept(int v) { return v; }
inline u32 and_or(u32 a, u32 b, u32 c) { return (a & b) | c; }

inline void __syncthreads() { emulated::barrier(0, 0); }
inline void __threadfence() {}
inline void __threadfence_block() {}
inline u32 __activemask() { return 0xffffffffu; } // The kernels that call it have no divergent warps.

enum { SHUFFLE_XOR = 1, SHUFFLE, SHUFFLE_UP, BALLOT, SYNC_WARP, MMA, LOAD_MATRIX };

template <class T>
inline T from_lane(const emulated::Slots &s, int lane) {
  T t;
  memcpy(&t, s[lane], sizeof t);
  return t;
}
inline int lane_id() { return threadIdx.x % 32; }

template <class T>
inline T __shfl_xor_sync(u32 mask, T v, int offset) {
  return from_lane<T>(emulated::meet(mask, SHUFFLE_XOR, &v, sizeof v), lane_id() ^ offset);
}
template <class T>
inline T __shfl_sync(u32 mask, T v, int lane) {
  return from_lane<T>(emulated::meet(mask, SHUFFLE, &v, sizeof v), lane & 31);
}
template <class T>
inline T __shfl_up_sync(u32 mask, T v, int n) {
  return from_lane<T>(emulated::meet(mask, SHUFFLE_UP, &v, sizeof v), lane_id() >= n ? lane_id() - n : lane_id());
}
inline u32 __ballot_sync(u32 mask, int predicate) {
  const emulated::Slots &s = emulated::meet(mask, BALLOT, &predicate, sizeof predicate);
  u32 out = 0;
  for (int i = 0; i < 32; i++)
    if (mask >> i & 1 && from_lane<int>(s, i)) out |= 1u << i;
  return out;
}
inline int __popc(u32 v) { return __builtin_popcount(v); }
inline void __syncwarp() {
  u32 v = 0;
  emulated::meet(0xffffffffu, SYNC_WARP, &v, sizeof v);
}

template <class T>
inline T __ldcg(const T *p) { return *p; }
template <class T>
inline T __ldcs(const T *p) { return *p; }
template <class T>
inline T __ldg(const T *p) { return *p; }
template <class T>
inline void __stcg(T *p, T v) { *p = v; }
template <class T, class V>
inline T atomicAdd(T *p, V v) {
  T old = *p;
  *p = old + (T)v;
  return old;
}
template <class T>
inline T atomicMax(T *p, T v) {
  T old = *p;
  *p = old > v ? old : v;
  return old;
}
template <class T>
inline T atomicExch(T *p, T v) {
  T old = *p;
  *p = v;
  return old;
}

// What follows are the functions of ptx.cuh.

inline u32 round_bf16(float v) {
  u32 b = __float_as_uint(v);
  if ((b & 0x7fffffff) > 0x7f800000) return 0x7fff; // The instruction converts every NaN to this value.
  return (b + 0x7fff + (b >> 16 & 1)) >> 16;
}
#if FP16
inline u32 round16(float v) { return round_half(v); }
inline float value16(u32 v) { return half_value(v); }
#else
inline u32 round16(float v) { return round_bf16(v); }
inline float value16(u32 v) { return __uint_as_float(v << 16); }
#endif
inline u32 pack(float a, float b) { return round16(a) | round16(b) << 16; }
inline u32 multiply_add16(u32 a, u32 b, u32 c) {
  auto one = [](u32 a, u32 b, u32 c) { return round16(fmaf(value16(a & 0xffff), value16(b & 0xffff), value16(c & 0xffff))); };
  return one(a, b, c) | one(a >> 16, b >> 16, c >> 16) << 16;
}
inline float to_float(bf16 v) { return value16(v); }
inline float low(u32 p) { return value16(p & 0xffff); }
inline float high(u32 p) { return value16(p >> 16); }

// The previous kernel has always ended here. The emulator still checks that each thread waits for it.
inline void after_previous() { emulated::current->waited = true; }
inline void wait_for_previous() { after_previous(); }
inline void let_next_start() {}

// These functions convert addresses of dynamic shared memory. Adding 1024 distinguishes an address from an offset.
inline u32 shared_address(const void *p) { return (u32)((const u8 *)p - emulated::shared) + 1024; }
inline u8 *shared_pointer(u32 at) {
  if (at < 1024 || emulated::shared + (at - 1024) >= emulated::shared_end) emulated::fail("an address outside of shared memory");
  return emulated::shared + (at - 1024);
}

void tiles_product(float c[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1);

#ifndef OLDER
inline void mma(float c[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) { tiles_product(c, a0, a1, a2, a3, b0, b1); }
#endif

void load_matrices(u32 r[4], u32 at, bool transposed);
#if !defined(OLDER) || OLDER >= 75
inline void ldmatrix(u32 r[4], u32 at) { load_matrices(r, at, false); }
inline void ldmatrix_transposed(u32 r[4], u32 at) { load_matrices(r, at, true); }
#endif

#ifdef OLDER
inline void mma_half(float c[4], u32 a0, u32 a1, u32 b0) { tiles_product(c, a0, a1, 0, 0, b0, 0); }
template <class T>
inline void put_shared(u32 to, T v) {
  if (to % sizeof v) emulated::fail("a store of bytes that are not aligned");
  shared_pointer(to + sizeof v - 1);
  *(T *)shared_pointer(to) = v;
}
inline u32 get_shared(u32 at) { return *(const u32 *)shared_pointer(at); }
inline void look_again() { emulated::look_again(); }
inline void barrier_arrive(u64 *b); // older.cuh calls it.
#else

void begin_copy(u32 to, const void *from, int bytes, u32 size = 16);
inline void copy16(u32 to, const void *from) { begin_copy(to, from, 16); }
inline void copy4(u32 to, const void *from) { begin_copy(to, from, 4, 4); }
inline u64 evict_first() { return 0; }
inline void copy16_once(u32 to, const void *from, u64) { begin_copy(to, from, 16); }
inline void copy16_or_zero(u32 to, const void *from, int bytes) { begin_copy(to, from, bytes); }
inline void commit() { emulated::current->group++; }
template <int N>
inline void wait_copies() {
  u32 g = emulated::current->group;
  emulated::copy_now(g > N ? g - N : 0);
}

// A barrier has three fields: the arrivals that are missing, the arrivals of a phase, and the phase.
inline void barrier_init(u64 *b, u32 count) { *b = (u64)count << 20 | count; }
inline void barrier_arrive(u64 *b) {
  u64 missing = *b & 0xfffff, all = *b >> 20 & 0xfffff, phase = *b >> 63;
  if (missing == 0) emulated::fail("an arrival too many at an mbarrier");
  if (--missing == 0) missing = all, phase ^= 1;
  *b = phase << 63 | all << 20 | missing;
}
inline void barrier_arrive_copied(u64 *b) {
  emulated::copy_now(~0u);
  barrier_arrive(b);
}
inline void barrier_wait(u64 *b, u32 parity) {
  if (emulated::phase_done(b, parity)) return;
  emulated::current->mbarrier = b, emulated::current->parity = parity;
  emulated::wait(emulated::AT_MBARRIER);
}
#endif
inline void sync_threads_of(int barrier, int threads) { emulated::barrier(barrier, threads); }

// Kernels of other GPUs run on other threads of the host at the same time. A thread that polls a count
// therefore yields to the other threads of its block and to other GPUs.
inline void leave_count(u32 *at, u32 v) { __atomic_store_n(at, v, __ATOMIC_RELEASE); }
inline u32 read_count(const u32 *at) {
  emulated::look_again();
  return __atomic_load_n(at, __ATOMIC_ACQUIRE);
}
inline void ll_store(u64 *at, u32 v, u32 epoch) { __atomic_store_n(at, (u64)epoch << 32 | v, __ATOMIC_RELAXED); }
inline u64 ll_load(const u64 *at) {
  u64 v = __atomic_load_n(at, __ATOMIC_RELAXED);
  emulated::look_again();
  return v;
}
inline void ll_store_pair(u64 *at, u64 v, u64 w) {
  if ((u64)at % 16) emulated::fail("boxes that do not lie side by side");
  __atomic_store_n(at, v, __ATOMIC_RELAXED);
  __atomic_store_n(at + 1, w, __ATOMIC_RELAXED);
}
inline void ll_load_pair(const u64 *at, u64 (&v)[2]) {
  if ((u64)at % 16) emulated::fail("boxes that do not lie side by side");
  v[0] = ll_load(at), v[1] = ll_load(at + 1);
}
inline float4 load_peer(const float *at) { return *(const float4 *)at; }
// nanoseconds is a clock that runs ten times slower than the host's, because emulated ranks wait longer
// for each other than GPUs do, especially on a busy machine.
inline u64 nanoseconds() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (t.tv_sec * 1000000000ull + t.tv_nsec) / 10;
}
inline void give_up(u32 *word, u32 v) {
  *word = v;
  emulated::trap();
}

inline void give_up() { emulated::trap(); }

inline u32 cluster_blocks() { return emulated::cluster; }
inline void cluster_begin() { emulated::arrive_at_cluster(); }
inline void cluster_wait() { emulated::wait_for_cluster(); }
inline void barrier_expect(u64 *b, u32 bytes) {
  *b += bytes;
  barrier_arrive(b);
}
inline bool bulk_copies() { return emulated::reversed; } // The launches alternate between both kinds of copies.
inline void before_bulk() {}
inline void call_ahead(const void *from, u32 bytes) {
  if ((u64)from % 16 || bytes % 16) emulated::fail("bytes ahead that are not aligned");
}
inline void copy_bulk(u32 to, const void *from, u32 bytes, u64 *b, u64) {
  if ((u64)from % 16 || to % 16 || bytes % 16) emulated::fail("a copy of bytes that are not aligned");
  shared_pointer(to + bytes - 1);
  memcpy(shared_pointer(to), from, bytes);
  u64 missing = *b & 0xfffff, all = *b >> 20 & 0xfffff;
  if (missing < bytes) emulated::fail("bytes that an mbarrier does not expect");
  *b -= bytes;
  if (missing == bytes) *b = ~*b & 1ull << 63 | all << 20 | all;
}
template <class T>
inline void send(T *at, u64 *b, u32 rank, T v) {
  *(T *)emulated::in_cluster(at, rank) = v;
  u64 *there = (u64 *)emulated::in_cluster(b, rank);
  u64 missing = *there & 0xfffff, all = *there >> 20 & 0xfffff;
  if (missing < sizeof v) emulated::fail("bytes that an mbarrier does not expect");
  *there -= sizeof v;
  if (missing == sizeof v) *there = ~*there & 1ull << 63 | all << 20 | all;
}

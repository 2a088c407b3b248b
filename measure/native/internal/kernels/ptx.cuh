// The PTX instructions that CUDA C++ has no functions for, and their types. Activations, cache and
// 16-bit weights have the type bf16, also if the host defines FP16 and they are IEEE binary16. Tests
// without a GPU replace this file by C++, so everything that is not C++ belongs here, or in hopper.cuh
// if only Hopper has it.

typedef unsigned char u8;
typedef unsigned short bf16;
typedef unsigned int u32;
typedef unsigned long long u64;

// DYNAMIC_SHARED is the dynamic shared memory of a block.
#define DYNAMIC_SHARED(name) extern __shared__ __align__(128) u8 name[]

// SIXTEEN is the 16-bit format in the names of instructions.
#if FP16
#define SIXTEEN "f16"
#else
#define SIXTEEN "bf16"
#endif

// pack rounds two floats to nearest even, with a in the low half.
__device__ __forceinline__ u32 pack(float a, float b) {
  u32 r;
#ifndef OLDER
  asm("cvt.rn." SIXTEEN "x2.f32 %0, %1, %2;" : "=r"(r) : "f"(b), "f"(a));
#else
  asm("{\n.reg .b16 l, h;\ncvt.rn.f16.f32 l, %1;\ncvt.rn.f16.f32 h, %2;\nmov.b32 %0, {l, h};\n}" : "=r"(r) : "f"(a), "f"(b));
#endif
  return r;
}

// to_float is the value of 16 bits; low and high are the values of the halves of a word.
#if FP16
__device__ __forceinline__ float to_float(bf16 v) {
  float f;
  asm("cvt.f32.f16 %0, %1;" : "=f"(f) : "h"(v));
  return f;
}
__device__ __forceinline__ float low(u32 p) { return to_float((bf16)p); }
__device__ __forceinline__ float high(u32 p) { return to_float((bf16)(p >> 16)); }
#else
__device__ __forceinline__ float to_float(bf16 v) { return __uint_as_float((u32)v << 16); }
__device__ __forceinline__ float low(u32 p) { return __uint_as_float(p << 16); }
__device__ __forceinline__ float high(u32 p) { return __uint_as_float(p & 0xffff0000u); }
#endif

// multiply_add16 is a·b + c of two values each, rounded once.
__device__ __forceinline__ u32 multiply_add16(u32 a, u32 b, u32 c) {
  u32 r;
  asm("fma.rn." SIXTEEN "x2 %0, %1, %2, %3;" : "=r"(r) : "r"(a), "r"(b), "r"(c));
  return r;
}

// and_or is (a & b) | c in one instruction, also if b and c are constants, of which the compiler would
// make two instructions.
__device__ __forceinline__ u32 and_or(u32 a, u32 b, u32 c) {
  u32 r;
  asm("lop3.b32 %0, %1, %2, %3, 0xea;" : "=r"(r) : "r"(a), "r"(b), "r"(c));
  return r;
}

// kept is v in a register; the compiler does not compute it again at each use.
__device__ __forceinline__ int kept(int v) {
  asm volatile("" : "+r"(v));
  return v;
}

// after_previous waits for the kernel before, if this one was started early, and discards what the L1
// cache has.
__device__ __forceinline__ void after_previous() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
  __threadfence();
#endif
}

// wait_for_previous waits for the kernel before and keeps the L1 cache, which may have outdated
// values; what that kernel wrote has to be read past it.
__device__ __forceinline__ void wait_for_previous() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// let_next_start allows the next kernel to start; its after_previous still waits for the end of this
// one.
__device__ __forceinline__ void let_next_start() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

// Accesses between GPUs have the scope of the system (PTX ISA, "Memory Consistency Model").
// leave_count writes a count for a block of another GPU after everything that this thread knows to be
// written; read_count sees what was written before the count that it reads.
__device__ __forceinline__ void leave_count(u32 *at, u32 v) {
  __threadfence_system();
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(at), "r"(v) : "memory");
}

__device__ __forceinline__ u32 read_count(const u32 *at) {
  u32 v;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(v) : "l"(at) : "memory");
  return v;
}

// ll_store stores a packet of NCCL's LL protocol, a value and its epoch, in one store that orders
// nothing else. ll_load reads a packet.
__device__ __forceinline__ void ll_store(u64 *at, u32 v, u32 epoch) {
  asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(at), "l"((u64)epoch << 32 | v) : "memory");
}

__device__ __forceinline__ u64 ll_load(const u64 *at) {
  u64 v;
  asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(v) : "l"(at) : "memory");
  return v;
}

// ll_store_pair and ll_load_pair do so with two packets at a multiple of 16 bytes. Each packet is
// whole, and one may arrive before the other.
__device__ __forceinline__ void ll_store_pair(u64 *at, u64 v, u64 w) {
  asm volatile("st.relaxed.sys.global.v2.u64 [%0], {%1, %2};" ::"l"(at), "l"(v), "l"(w) : "memory");
}

__device__ __forceinline__ void ll_load_pair(const u64 *at, u64 (&v)[2]) {
  asm volatile("ld.relaxed.sys.global.v2.u64 {%0, %1}, [%2];" : "=l"(v[0]), "=l"(v[1]) : "l"(at) : "memory");
}

// load_peer loads values of another GPU past every cache of this one.
__device__ __forceinline__ float4 load_peer(const float *at) {
  float4 v;
  asm volatile("ld.relaxed.sys.global.v4.f32 {%0,%1,%2,%3}, [%4];" : "=f"(v.x), "=f"(v.y), "=f"(v.z), "=f"(v.w) : "l"(at) : "memory");
  return v;
}

// nanoseconds reads a clock of the GPU.
__device__ __forceinline__ u64 nanoseconds() {
  u64 t;
  asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t));
  return t;
}

// give_up ends the kernel, and with it all work of the GPU's context, after it wrote a word for the
// host.
__device__ __forceinline__ void give_up(u32 *word, u32 v) {
  *(volatile u32 *)word = v;
  __threadfence_system();
  asm volatile("trap;");
}

// give_up without a word is for blocks that wait for each other on one GPU.
__device__ __forceinline__ void give_up() { asm volatile("trap;"); }

__device__ __forceinline__ u32 shared_address(const void *p) { return (u32)__cvta_generic_to_shared(p); }

#ifndef OLDER // older.cuh has these functions for older GPUs.

// mma adds the product of a 16x16 tile of a and a 16x8 tile of b to c. Lane 4g+t has rows g and g+8 of
// columns 2t, 2t+1, 2t+8 and 2t+9 of a, rows 2t, 2t+1, 2t+8 and 2t+9 of column g of b, and rows g and
// g+8 of columns 2t and 2t+1 of c (PTX ISA, mma.m16n8k16).
__device__ __forceinline__ void mma(float c[4], u32 a0, u32 a1, u32 a2, u32 a3, u32 b0, u32 b1) {
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." SIXTEEN "." SIXTEEN ".f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a0), "r"(a1), "r"(a2), "r"(a3), "r"(b0), "r"(b1));
}

__device__ __forceinline__ void barrier_init(u64 *b, u32 count) {
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" ::"r"(shared_address(b)), "r"(count) : "memory");
}

__device__ __forceinline__ void barrier_arrive(u64 *b) {
  asm volatile("{\n.reg .b64 state;\nmbarrier.arrive.shared.b64 state, [%0];\n}" ::"r"(shared_address(b)) : "memory");
}

// barrier_arrive_copied arrives when the copies that this thread started are done.
__device__ __forceinline__ void barrier_arrive_copied(u64 *b) {
  asm volatile("cp.async.mbarrier.arrive.noinc.shared.b64 [%0];" ::"r"(shared_address(b)) : "memory");
}

__device__ __forceinline__ void barrier_wait(u64 *b, u32 parity) {
  u32 done = 0;
  while (!done) {
#if __CUDA_ARCH__ >= 900
    asm volatile("{\n.reg .pred p;\nmbarrier.try_wait.parity.shared.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
#else
    asm volatile("{\n.reg .pred p;\nmbarrier.test_wait.parity.shared.b64 p, [%1], %2;\nselp.u32 %0, 1, 0, p;\n}"
#endif
                 : "=r"(done)
                 : "r"(shared_address(b)), "r"(parity)
                 : "memory");
#ifdef SANITIZED
    if (!done) __nanosleep(2000); // racecheck records each poll.
#endif
  }
}

__device__ __forceinline__ void copy16(u32 to, const void *from) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
}

__device__ __forceinline__ void copy4(u32 to, const void *from) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(from) : "memory");
}

__device__ __forceinline__ void copy16_once(u32 to, const void *from, u64 policy) {
  asm volatile("cp.async.cg.shared.global.L2::cache_hint [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "l"(policy) : "memory");
}

// evict_first is the cache policy of data that is read once.
__device__ __forceinline__ u64 evict_first() {
  u64 policy;
  asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
  return policy;
}

#endif // OLDER

// sync_threads_of waits at a named barrier for so many threads of the block; __syncthreads has barrier
// 0.
__device__ __forceinline__ void sync_threads_of(int barrier, int threads) { asm volatile("bar.sync %0, %1;" ::"r"(barrier), "r"(threads) : "memory"); }

#ifndef OLDER

// copy16_or_zero copies the first bytes, 16 or none, and makes the others 0.
__device__ __forceinline__ void copy16_or_zero(u32 to, const void *from, int bytes) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(to), "l"(from), "r"(bytes));
}

__device__ __forceinline__ void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

// wait_copies waits for all but the last N groups of this thread's copies.
template <int N>
__device__ __forceinline__ void wait_copies() {
  asm volatile("cp.async.wait_group %0;" ::"n"(N) : "memory");
}

#else

// put_shared and get_shared are stores to and loads from an address of shared
// memory.
__device__ __forceinline__ void put_shared(u32 to, uint4 v) {
  asm volatile("st.shared.v4.u32 [%0], {%1,%2,%3,%4};" ::"r"(to), "r"(v.x), "r"(v.y), "r"(v.z), "r"(v.w) : "memory");
}

__device__ __forceinline__ void put_shared(u32 to, u32 v) { asm volatile("st.shared.u32 [%0], %1;" ::"r"(to), "r"(v) : "memory"); }

__device__ __forceinline__ u32 get_shared(u32 at) {
  u32 v;
  asm volatile("ld.shared.u32 %0, [%1];" : "=r"(v) : "r"(at) : "memory");
  return v;
}

// look_again waits a little before a thread polls again.
__device__ __forceinline__ void look_again() { __nanosleep(20); }

#if OLDER >= 75
// mma_half is mma of 8 columns of a and 8 rows of b: a lane has columns 2t and 2t+1 of a, and rows 2t
// and 2t+1 of b (PTX ISA, mma.m16n8k8).
__device__ __forceinline__ void mma_half(float c[4], u32 a0, u32 a1, u32 b0) {
  asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5}, {%6}, {%0,%1,%2,%3};"
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
               : "r"(a0), "r"(a1), "r"(b0));
}
#endif

#endif // OLDER

#if !defined(OLDER) || OLDER >= 75
// ldmatrix loads four 8x8 matrices: lane 8i+r names row r of matrix i, and lane
// 4g+t gets columns 2t and 2t+1 of row g of each; transposed, rows 2t and 2t+1 of
// column g.
__device__ __forceinline__ void ldmatrix(u32 r[4], u32 at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at));
}

__device__ __forceinline__ void ldmatrix_transposed(u32 r[4], u32 at) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];" : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3]) : "r"(at));
}
#endif

// A cluster is blocks that run at the same time and access each other's shared memory, on compute
// capability 9.0 and later. cluster_blocks is how many of them the launch put together along x, 1 for
// none.
__device__ __forceinline__ u32 cluster_blocks() {
#if __CUDA_ARCH__ >= 900
  u32 n;
  asm volatile("mov.u32 %0, %%cluster_nctaid.x;" : "=r"(n));
  return n;
#else
  return 1;
#endif
}

// cluster_begin says that this thread has begun and initialized its mbarriers; cluster_wait waits
// until all threads of the cluster have said so.
__device__ __forceinline__ void cluster_begin() {
#if __CUDA_ARCH__ >= 900
  asm volatile("fence.mbarrier_init.release.cluster;\nbarrier.cluster.arrive.relaxed;" ::: "memory");
#endif
}

__device__ __forceinline__ void cluster_wait() {
#if __CUDA_ARCH__ >= 900
  asm volatile("barrier.cluster.wait.acquire;" ::: "memory");
#endif
}

// in_cluster is the address in block rank of the cluster that corresponds to `at` here.
__device__ __forceinline__ u32 in_cluster(const void *at, u32 rank) {
  u32 there = 0;
#if __CUDA_ARCH__ >= 900
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(there) : "r"(shared_address(at)), "r"(rank));
#endif
  return there;
}

// barrier_expect arrives at a barrier of this block and announces so many bytes that will be sent to
// it.
__device__ __forceinline__ void barrier_expect(u64 *b, u32 bytes) {
#if __CUDA_ARCH__ >= 900
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" ::"r"(shared_address(b)), "r"(bytes) : "memory");
#endif
}

// bulk_copies reports whether weights come by copy_bulk, which older GPUs lack.
__device__ __forceinline__ bool bulk_copies() {
#if __CUDA_ARCH__ >= 900
  return true;
#else
  return false;
#endif
}

// copy_bulk copies bytes, a multiple of 16, and they arrive at the barrier b (PTX ISA, cp.async.bulk).
__device__ __forceinline__ void copy_bulk(u32 to, const void *from, u32 bytes, u64 *b, u64 policy) {
#if __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;" ::"r"(to), "l"(from), "r"(bytes),
               "r"(shared_address(b)), "l"(policy)
               : "memory");
#endif
}

// before_bulk orders this thread's writes to shared memory before the effects of copy_bulk there.
__device__ __forceinline__ void before_bulk() {
#if __CUDA_ARCH__ >= 900
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

// call_ahead prefetches bytes, a multiple of 16, to the L2.
__device__ __forceinline__ void call_ahead(const void *from, u32 bytes) {
#if __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.prefetch.L2.global [%0], %1;" ::"l"(from), "r"(bytes) : "memory");
#endif
}

// send stores v in block rank of the cluster, and its bytes arrive at the barrier b there.
__device__ __forceinline__ void send(float4 *at, u64 *b, u32 rank, float4 v) {
#if __CUDA_ARCH__ >= 900
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.f32 [%0], {%1,%2,%3,%4}, [%5];" ::"r"(in_cluster(at, rank)), "f"(v.x),
               "f"(v.y), "f"(v.z), "f"(v.w), "r"(in_cluster(b, rank))
               : "memory");
#endif
}

__device__ __forceinline__ void send(float2 *at, u64 *b, u32 rank, float2 v) {
#if __CUDA_ARCH__ >= 900
  asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v2.f32 [%0], {%1,%2}, [%3];" ::"r"(in_cluster(at, rank)), "f"(v.x), "f"(v.y),
               "r"(in_cluster(b, rank))
               : "memory");
#endif
}

// Hopper's instructions: wgmma, bulk tensor copies, and what they need (PTX ISA, "Asynchronous
// warpgroup level matrix instructions" and "Asynchronous data movement"). The tests replace this file,
// as they replace ptx.cuh.

#if defined(__CUDA_ARCH_FEAT_SM90_ALL) && !defined(OLDER)

#define REGISTERS_8(d, i) \
  "+f"(d[i]), "+f"(d[i + 1]), "+f"(d[i + 2]), "+f"(d[i + 3]), "+f"(d[i + 4]), "+f"(d[i + 5]), "+f"(d[i + 6]), "+f"(d[i + 7])
#define REGISTERS_32(d, i) REGISTERS_8(d, i), REGISTERS_8(d, i + 8), REGISTERS_8(d, i + 16), REGISTERS_8(d, i + 24)
#define NAMES_32                                                                                  \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, " \
  "%21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define NAMES_64                                                                                           \
  NAMES_32 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, " \
           "%50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"

// descriptor describes the place of a matrix: lead is the distance between blocks if rows are the
// inner dimension (values), 8 rows are 1024 bytes, and 16-byte piece c of row r of 128 bytes lies at
// c^(r%8).
__device__ __forceinline__ u64 descriptor(u32 at, u32 lead) {
  return (u64)((at & 0x3ffff) >> 4) | (u64)(lead >> 4) << 16 | (u64)(1024 >> 4) << 32 | 1ull << 62;
}

// wgmma_scores adds to d, or sets it to, 64 queries times 128 keys of 16 values.
__device__ __forceinline__ void wgmma_scores(float (&d)[64], u64 a, u64 b, int add) {
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"
               "wgmma.mma_async.sync.aligned.m64n128k16.f32." SIXTEEN "." SIXTEEN " {" NAMES_64 "}, %64, %65, p, 1, 1, 0, 0;\n}"
               : REGISTERS_32(d, 0), REGISTERS_32(d, 32)
               : "l"(a), "l"(b), "r"(add));
}

// wgmma_values adds to d 64 rows of weights of 16 keys times the keys' values, for heads of 128 values
// and of 64.
__device__ __forceinline__ void wgmma_values(float (&d)[64], const u32 (&a)[4], u64 b) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32." SIXTEEN "." SIXTEEN " {" NAMES_64 "}, {%64, %65, %66, %67}, %68, 1, 1, 1, 1;"
               : REGISTERS_32(d, 0), REGISTERS_32(d, 32)
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

__device__ __forceinline__ void wgmma_values(float (&d)[32], const u32 (&a)[4], u64 b) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32." SIXTEEN "." SIXTEEN " {" NAMES_32 "}, {%32, %33, %34, %35}, %36, 1, 1, 1, 1;"
               : REGISTERS_32(d, 0)
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}

// wgmma_product adds to d 64 rows of 16 values times as many columns as d has twice. The rows of both
// matrices are 64 values, swizzled.
#define WGMMA_PRODUCT(COLUMNS, REGISTERS, NAMES, A, B, ...)                                                                      \
  __device__ __forceinline__ void wgmma_product(float (&d)[REGISTERS], u64 a, u64 b) {                                                  \
    asm volatile("wgmma.mma_async.sync.aligned.m64n" COLUMNS "k16.f32." SIXTEEN "." SIXTEEN " {" NAMES "}, " A ", " B ", 1, 1, 1, 0, 0;" \
                 : __VA_ARGS__                                                                                                       \
                 : "l"(a), "l"(b));                                                                                                  \
  }
#define NAMES_8 "%0, %1, %2, %3, %4, %5, %6, %7"
#define NAMES_16 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define NAMES_24 NAMES_16 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define NAMES_40 NAMES_32 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define NAMES_48 NAMES_32 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"
#define NAMES_56 NAMES_48 ", %48, %49, %50, %51, %52, %53, %54, %55"
#define NAMES_72 NAMES_64 ", %64, %65, %66, %67, %68, %69, %70, %71"
#define NAMES_80 NAMES_72 ", %72, %73, %74, %75, %76, %77, %78, %79"
WGMMA_PRODUCT("16", 8, NAMES_8, "%8", "%9", REGISTERS_8(d, 0))
WGMMA_PRODUCT("32", 16, NAMES_16, "%16", "%17", REGISTERS_8(d, 0), REGISTERS_8(d, 8))
WGMMA_PRODUCT("48", 24, NAMES_24, "%24", "%25", REGISTERS_8(d, 0), REGISTERS_8(d, 8), REGISTERS_8(d, 16))
WGMMA_PRODUCT("64", 32, NAMES_32, "%32", "%33", REGISTERS_32(d, 0))
WGMMA_PRODUCT("80", 40, NAMES_40, "%40", "%41", REGISTERS_32(d, 0), REGISTERS_8(d, 32))
WGMMA_PRODUCT("96", 48, NAMES_48, "%48", "%49", REGISTERS_32(d, 0), REGISTERS_8(d, 32), REGISTERS_8(d, 40))
WGMMA_PRODUCT("112", 56, NAMES_56, "%56", "%57", REGISTERS_32(d, 0), REGISTERS_8(d, 32), REGISTERS_8(d, 40), REGISTERS_8(d, 48))
WGMMA_PRODUCT("128", 64, NAMES_64, "%64", "%65", REGISTERS_32(d, 0), REGISTERS_32(d, 32))
#if MOE
WGMMA_PRODUCT("144", 72, NAMES_72, "%72", "%73", REGISTERS_32(d, 0), REGISTERS_32(d, 32), REGISTERS_8(d, 64))
WGMMA_PRODUCT("160", 80, NAMES_80, "%80", "%81", REGISTERS_32(d, 0), REGISTERS_32(d, 32), REGISTERS_8(d, 64), REGISTERS_8(d, 72))
#endif

// transpose8 transposes a matrix of 8 by 8 values of 16 bits: lane 4g+t has columns 2t and
// 2t+1 of row g.
__device__ __forceinline__ u32 transpose8(u32 v) {
  u32 r;
  asm volatile("movmatrix.sync.aligned.m8n8.trans.b16 %0, %1;" : "=r"(r) : "r"(v));
  return r;
}

__device__ __forceinline__ void wgmma_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// wgmma_wait waits for all but the last n groups.
template <int N>
__device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}

// settle keeps the compiler from moving uses of registers over a wait.
template <int N>
__device__ __forceinline__ void settle(float (&d)[N]) {
#pragma unroll
  for (int i = 0; i < N; i++) asm volatile("" : "+f"(d[i])::"memory");
}

// show_barriers lets bulk copies see barriers that were initialized.
__device__ __forceinline__ void show_barriers() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

// take_registers and leave_registers change how many registers a thread of the warpgroup has.
template <int N>
__device__ __forceinline__ void take_registers() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(N));
}

template <int N>
__device__ __forceinline__ void leave_registers() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(N));
}

// arrive_at counts this thread at a barrier without waiting there.
__device__ __forceinline__ void arrive_at(int barrier, int threads) { asm volatile("bar.arrive %0, %1;" ::"r"(barrier), "r"(threads) : "memory"); }

// power_of_2 is 2 to v, with 0 for what would be denormal.
__device__ __forceinline__ float power_of_2(float v) {
  float r;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(v));
  return r;
}

// A TensorMap describes a tensor in memory to the bulk copies; cuTensorMapEncodeTiled makes it.
struct alignas(64) TensorMap {
  u64 words[16];
};

// fetch_map prefetches a map for the copies that will read it.
__device__ __forceinline__ void fetch_map(const TensorMap &map) { asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory"); }

// expect_boxes arrives at a barrier, and adds to the bytes that its phase waits for.
__device__ __forceinline__ void expect_boxes(u64 *b, u32 bytes) {
  asm volatile("{\n.reg .b64 state;\nmbarrier.arrive.expect_tx.shared.b64 state, [%0], %1;\n}" ::"r"(shared_address(b)), "r"(bytes) : "memory");
}

// copy_box starts copying a box of the tensor, whose first value is at (x, y, z). Values outside of
// the tensor are zeros. Its bytes arrive at the barrier.
__device__ __forceinline__ void copy_box(u32 to, const TensorMap &map, int x, int y, int z, u64 *b) {
  asm volatile("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%2, %3, %4}], [%5];" ::"r"(to), "l"(&map), "r"(x),
               "r"(y), "r"(z), "r"(shared_address(b))
               : "memory");
}

#endif

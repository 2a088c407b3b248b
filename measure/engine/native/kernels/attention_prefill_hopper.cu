// Causal attention of whole prompts on Hopper: FlashAttention-2 on wgmma, with
// the scores of the next tile computed while the soft-max of this one is (the
// overlap within a warpgroup of FlashAttention-3, arXiv:2407.08608). A block of
// two warpgroups takes 128 queries of one head, 64 a warpgroup, and runs over the
// keys in tiles of 128. Arguments are those of attention_prefill.
//
// Shared memory holds rows of 64 values, 128 bytes, in blocks of 128 rows; 16-byte
// piece c of row r lies at c^(r%8): the 128-byte swizzle that wgmma's descriptors
// name (PTX ISA, "Asynchronous warpgroup level matrix instructions").

// The host takes it where the model has no window in use and no soft cap.

#if defined(__CUDA_ARCH_FEAT_SM90_ALL) && HEAD_DIM <= 128 && !SLIDING && !defined(ATT_SOFTCAP)

#define WIDE 128                         // queries, and keys, of a tile
#define BLOCK (WIDE * 128)               // bytes of a block of 64 values of each row
#define MATRIX (HEAD_DIM / 64 * BLOCK)   // bytes of a tile

// descriptor says where a matrix lies: lead is the distance between blocks where
// rows are the inner dimension (values), 8 rows are 1024 bytes apart.
__device__ __forceinline__ u64 descriptor(u32 at, u32 lead) {
  return (u64)((at & 0x3ffff) >> 4) | (u64)(lead >> 4) << 16 | (u64)(1024 >> 4) << 32 | 1ull << 62;
}

// wgmma_scores adds to d, or sets it to, 64 queries times 128 keys of 16 values.
__device__ __forceinline__ void wgmma_scores(float d[64], u64 a, u64 b, int add) {
  asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %66, 0;\n"
               "wgmma.mma_async.sync.aligned.m64n128k16.f32." SIXTEEN "." SIXTEEN
               " {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
               "  %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
               "  %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
               "  %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
               "%64, %65, p, 1, 1, 0, 0;\n}"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
                 "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
                 "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
                 "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]),
                 "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]),
                 "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]),
                 "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]),
                 "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
               : "l"(a), "l"(b), "r"(add));
}

// wgmma_values adds to d 64 rows of weights of 16 keys times their values.
#if HEAD_DIM == 128
__device__ __forceinline__ void wgmma_values(float d[64], const u32 a[4], u64 b) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32." SIXTEEN "." SIXTEEN
               " {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
               "  %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, "
               "  %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, "
               "  %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, "
               "{%64, %65, %66, %67}, %68, 1, 1, 1, 1;"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
                 "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
                 "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
                 "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31]),
                 "+f"(d[32]), "+f"(d[33]), "+f"(d[34]), "+f"(d[35]), "+f"(d[36]), "+f"(d[37]), "+f"(d[38]), "+f"(d[39]),
                 "+f"(d[40]), "+f"(d[41]), "+f"(d[42]), "+f"(d[43]), "+f"(d[44]), "+f"(d[45]), "+f"(d[46]), "+f"(d[47]),
                 "+f"(d[48]), "+f"(d[49]), "+f"(d[50]), "+f"(d[51]), "+f"(d[52]), "+f"(d[53]), "+f"(d[54]), "+f"(d[55]),
                 "+f"(d[56]), "+f"(d[57]), "+f"(d[58]), "+f"(d[59]), "+f"(d[60]), "+f"(d[61]), "+f"(d[62]), "+f"(d[63])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
#else
__device__ __forceinline__ void wgmma_values(float d[32], const u32 a[4], u64 b) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32." SIXTEEN "." SIXTEEN
               " {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, "
               "  %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, "
               "{%32, %33, %34, %35}, %36, 1, 1, 1, 1;"
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3]), "+f"(d[4]), "+f"(d[5]), "+f"(d[6]), "+f"(d[7]),
                 "+f"(d[8]), "+f"(d[9]), "+f"(d[10]), "+f"(d[11]), "+f"(d[12]), "+f"(d[13]), "+f"(d[14]), "+f"(d[15]),
                 "+f"(d[16]), "+f"(d[17]), "+f"(d[18]), "+f"(d[19]), "+f"(d[20]), "+f"(d[21]), "+f"(d[22]), "+f"(d[23]),
                 "+f"(d[24]), "+f"(d[25]), "+f"(d[26]), "+f"(d[27]), "+f"(d[28]), "+f"(d[29]), "+f"(d[30]), "+f"(d[31])
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "l"(b));
}
#endif

// settle keeps the compiler from moving uses of registers over a wait.
template <int N>
__device__ __forceinline__ void settle(float (&d)[N]) {
#pragma unroll
  for (int i = 0; i < N; i++) asm volatile("" : "+f"(d[i])::"memory");
}

__device__ __forceinline__ void wgmma_begin() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }

// wgmma_wait waits for all but the last n groups.
template <int N>
__device__ __forceinline__ void wgmma_wait() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(N) : "memory");
}

// copy_wide starts copying 128 rows; rows from have on are zeros.
__device__ __forceinline__ void copy_wide(u32 base, const bf16 *from, u64 stride, int have) {
  for (int i = threadIdx.x; i < WIDE * PIECES; i += 256) {
    int r = i / PIECES, c = i % PIECES, bytes = r < have ? 16 : 0;
    u32 to = base + c / 8 * BLOCK + r * 128 + ((c % 8) ^ (r & 7)) * 16;
    copy16_or_zero(to, from + (r < have ? r : 0) * stride + c * 8, bytes);
  }
}

// scores begins s = q·kᵀ.
__device__ __forceinline__ void scores(float s[64], u32 q, u32 k) {
  wgmma_begin();
#pragma unroll
  for (int d = 0; d < HEAD_DIM / 16; d++) {
    u32 at = d / 4 * BLOCK + d % 4 * 32;
    wgmma_scores(s, descriptor(q + at, 16), descriptor(k + at, 16), d > 0);
  }
  wgmma_commit();
}

// values begins o += a·v.
__device__ __forceinline__ void values(float o[HEAD_DIM / 2], const u32 a[WIDE / 16][4], u32 v) {
  wgmma_begin();
#pragma unroll
  for (int n = 0; n < WIDE / 16; n++) wgmma_values(o, a[n], descriptor(v + n * 16 * 128, BLOCK));
  wgmma_commit();
}

// hide takes out the scores of keys behind the query, in the tile on the diagonal.
__device__ __forceinline__ void hide(float s[64]) {
  int lane = threadIdx.x % WARP, row = threadIdx.x / WARP * 16 + lane / 4;
#pragma unroll
  for (int n = 0; n < WIDE / 8; n++)
#pragma unroll
    for (int i = 0; i < 4; i++)
      if (n * 8 + lane % 4 * 2 + (i & 1) > row + (i >> 1) * 8) s[4 * n + i] = -INFINITY;
}

// soften turns scores into weights; old is what earlier sums are to be scaled by.
__device__ __forceinline__ void soften(float s[64], float peak[2], float sum[2], float old[2], float scale) {
#pragma unroll
  for (int h = 0; h < 2; h++) { // rows g and g+8
    float m = peak[h];
#pragma unroll
    for (int n = 0; n < WIDE / 8; n++) m = fmaxf(m, fmaxf(s[4 * n + 2 * h], s[4 * n + 2 * h + 1]));
    m = fmaxf(m, __shfl_xor_sync(FULL, m, 1));
    m = fmaxf(m, __shfl_xor_sync(FULL, m, 2));
    float row = 0.f, shift = m * scale;
    old[h] = exp2f((peak[h] - m) * scale);
    peak[h] = m;
#pragma unroll
    for (int n = 0; n < WIDE / 8; n++)
#pragma unroll
      for (int i = 0; i < 2; i++) row += s[4 * n + 2 * h + i] = exp2f(fmaf(s[4 * n + 2 * h + i], scale, -shift));
    sum[h] = sum[h] * old[h] + row;
  }
}

__device__ __forceinline__ void pack_weights(u32 a[WIDE / 16][4], const float s[64]) {
#pragma unroll
  for (int n = 0; n < WIDE / 16; n++)
#pragma unroll
    for (int i = 0; i < 4; i++) a[n][i] = pack(s[8 * n + 2 * i], s[8 * n + 2 * i + 1]);
}

// arrived waits for the copies begun so far and shows them to the tensor cores.
__device__ __forceinline__ void arrived() {
  wait_copies<0>();
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
}

extern "C" __global__ void __launch_bounds__(256, 1)
    attention_prefill_hopper(const bf16 *qkv, const bf16 *k_cache, const bf16 *v_cache, bf16 *out, int kv_heads, int length, int capacity,
                             float scale) {
  extern __shared__ u8 unaligned[];
  u32 qs = (shared_address(unaligned) + 1023) / 1024 * 1024, ks = qs + MATRIX, vs = ks + 2 * MATRIX;
  int heads = kv_heads * GROUP, head = blockIdx.y, seq = blockIdx.z;
  int tile = gridDim.x - 1 - blockIdx.x; // the longest rows first
  int group = threadIdx.x / 128, warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, g = lane / 4, t = lane % 4;
  u64 width = (u64)(heads + 2 * kv_heads) * HEAD_DIM;
  const bf16 *q = qkv + ((u64)seq * length + tile * WIDE) * width + head * HEAD_DIM;
  u64 cache = ((u64)seq * kv_heads + head / GROUP) * capacity * HEAD_DIM;
  const bf16 *k = k_cache + cache, *v = v_cache + cache;
  const u64 step = (u64)WIDE * HEAD_DIM;

  copy_wide(qs, q, width, length - tile * WIDE);
  copy_wide(ks, k, HEAD_DIM, length);
  commit();
  if (tile > 0) copy_wide(ks + MATRIX, k + step, HEAD_DIM, length - WIDE);
  copy_wide(vs, v, HEAD_DIM, length);
  commit();

  float s[64], o[HEAD_DIM / 2] = {}, peak[2] = {-INFINITY, -INFINITY}, sum[2] = {0.f, 0.f}, old[2];
  u32 a[WIDE / 16][4];
  scale *= LOG2E;
  wait_copies<1>();
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
  __syncthreads();
  u32 mine = qs + group * 64 * 128;
  scores(s, mine, ks);
  wgmma_wait<0>();
  settle(s);
  if (tile == 0) hide(s);
  soften(s, peak, sum, old, scale);
  pack_weights(a, s);
  for (int j = 0; j < tile; j++) {
    arrived(); // keys j+1 and values j; keys j and values j-1 are done with
    if (j + 2 <= tile) copy_wide(ks + j % 2 * MATRIX, k + (j + 2) * step, HEAD_DIM, length - (j + 2) * WIDE);
    copy_wide(vs + (j + 1) % 2 * MATRIX, v + (j + 1) * step, HEAD_DIM, length - (j + 1) * WIDE);
    commit();
    scores(s, mine, ks + (j + 1) % 2 * MATRIX);
    values(o, a, vs + j % 2 * MATRIX);
    wgmma_wait<1>();
    settle(s);
    if (j + 1 == tile) hide(s);
    soften(s, peak, sum, old, scale);
    wgmma_wait<0>();
    settle(o);
#pragma unroll
    for (int i = 0; i < HEAD_DIM / 2; i++) o[i] *= old[i >> 1 & 1];
    pack_weights(a, s);
  }
  arrived();
  values(o, a, vs + tile % 2 * MATRIX);
  wgmma_wait<0>();
  settle(o);

#pragma unroll
  for (int h = 0; h < 2; h++) {
    float l = sum[h];
    l += __shfl_xor_sync(FULL, l, 1);
    l += __shfl_xor_sync(FULL, l, 2);
    int pos = tile * WIDE + warp * 16 + g + h * 8;
    if (pos >= length) continue;
    bf16 *to = out + ((u64)seq * length + pos) * heads * HEAD_DIM + head * HEAD_DIM + 2 * t;
#pragma unroll
    for (int n = 0; n < HEAD_DIM / 8; n++) *(u32 *)(to + n * 8) = pack(o[4 * n + 2 * h] / l, o[4 * n + 2 * h + 1] / l);
  }
}

#endif

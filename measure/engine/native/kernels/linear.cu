// Products of a few rows with a weight matrix: decoding. The weights are read
// once, which is all the time there is, so everything serves keeping their
// stream from DRAM unbroken:
//
//   - One warp copies 16-row pieces of the weights into a ring in shared memory
//     with bulk copies, as far ahead as the ring is long. It waits for nothing
//     but room, so it begins while the kernel ahead in the stream still runs.
//   - Eight warps multiply on tensor cores: weights are the 16 rows of an mma,
//     the batch its 8 columns. The order in which mma sums k is free as long as
//     both sides agree, so each lane takes 8 consecutive k in one 16-byte load.
//   - Norm, activation, residual sum and what the next norm needs are done to
//     the sums on their way out.
//
// Rows of the ring are 64 bytes apart from a multiple of 128, so that the 16-byte
// loads of two neighbouring rows meet no bank twice.

#if __CUDA_ARCH__ >= 900

#define CONSUMERS 8
#define RED_PITCH 20 // floats of a column of 16 sums: rows 2t of lanes t fall on banks 8 apart

__device__ __forceinline__ void barrier_init(u64 *b, u32 count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(b)), "r"(count) : "memory");
}

__device__ __forceinline__ void barrier_expect(u64 *b, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(b)), "r"(bytes) : "memory");
}

__device__ __forceinline__ void barrier_arrive(u64 *b) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(b)) : "memory");
}

__device__ __forceinline__ void barrier_wait(u64 *b, u32 parity) {
  asm volatile("{\n.reg .pred done;\nagain:\n"
               "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
               "@done bra.uni out;\nbra.uni again;\nout:\n}" ::"r"(shared_address(b)), "r"(parity) : "memory");
}

__device__ __forceinline__ void bulk_copy(void *to, const void *from, u32 bytes, u64 *b, u64 policy) {
  asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%0], [%1], %2, [%3], %4;" ::"r"(shared_address(to)),
               "l"(from), "r"(bytes), "r"(shared_address(b)), "l"(policy)
               : "memory");
}

enum Out { SCORES, RESIDUAL, SWIGLU };

struct LinearArgs {
  const bf16 *w;       // [n][k]; for SWIGLU gate[n][k] and then up[n][k]
  const bf16 *x;       // [batch][k]
  int n, k, batch;
  float eps;
  const float *squares; // [batch][k/16], of the norm ahead of this product
  float *y;             // SCORES: [batch][n]; RESIDUAL: the stream, [batch][n]
  bf16 *h;              // RESIDUAL: the stream times norm; SWIGLU: [batch][n]
  float *sums;          // RESIDUAL: [batch][n/16], squares for the next norm
  const bf16 *norm;     // RESIDUAL: of the next norm
};

// RT tiles of 16 rows and KS columns make one stage of the ring.
template <int NT, int RT, int KS, int STAGES, Out OUT>
struct Linear {
  static constexpr int ROWS = 16 * RT;
  static constexpr int PITCH = KS * 2 + 64;
  static constexpr int STAGE = ROWS * PITCH;
  static constexpr int SLICES = CONSUMERS / RT;     // warps that share a tile of rows
  static constexpr int UNITS = KS / SLICES / 64;    // of 64 columns, a warp and stage
  static constexpr int RED = NT * 8 * RED_PITCH;    // floats of one warp's sums
  static_assert(UNITS * SLICES * 64 == KS, "a stage divides among the warps");

  // row is the row of the weights that row j of stage tile holds.
  __device__ static __forceinline__ int row(const LinearArgs &a, int tile, int j) {
    if (OUT == SWIGLU) {
      int r = min((tile * RT + j / 16) * 8 + j % 8, a.n - 1);
      return j % 16 < 8 ? r : a.n + r;
    }
    return min(tile * ROWS + j, a.n - 1);
  }

  __device__ static void produce(const LinearArgs &a, u8 *ring, u64 *full, u64 *empty, int tiles) {
    int lane = threadIdx.x % WARP, slot = 0;
    u32 phase = 1; // a fresh barrier counts its phase before the first as done
    u64 policy;
    asm volatile("createpolicy.fractional.L2::evict_first.b64 %0, 1.0;" : "=l"(policy));
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
      for (int k = 0; k < a.k; k += KS) {
        u32 bytes = min(KS, a.k - k) * 2;
        barrier_wait(empty + slot, phase);
        if (lane == 0) barrier_expect(full + slot, bytes * ROWS);
        __syncwarp();
        for (int j = lane; j < ROWS; j += WARP)
          bulk_copy(ring + slot * STAGE + j * PITCH, a.w + (u64)row(a, tile, j) * a.k + k, bytes, full + slot, policy);
        if (++slot == STAGES) slot = 0, phase ^= 1;
      }
    }
  }

  // fetch loads the inputs that belong to a warp's share of the stage at column k.
  __device__ static __forceinline__ void fetch(const LinearArgs &a, uint4 v[UNITS * 2][NT], int k) {
    int lane = threadIdx.x % WARP, g = lane / 4, t = lane % 4;
#pragma unroll
    for (int u = 0; u < UNITS * 2; u++)
#pragma unroll
      for (int n = 0; n < NT; n++) {
        int seq = n * 8 + g, at = k + u * 32 + t * 8;
        v[u][n] = make_uint4(0, 0, 0, 0);
        if (seq < a.batch && at < a.k) v[u][n] = *(const uint4 *)(a.x + (u64)seq * a.k + at);
      }
  }

  __device__ static void consume(const LinearArgs &a, u8 *ring, u64 *full, u64 *empty, float *red, const float *scale, int tiles) {
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP, g = lane / 4, t = lane % 4;
    int part = warp % RT, base = warp / RT * UNITS * 64, slot = 0;
    u32 phase = 0;
    uint4 v[UNITS * 2][NT], ahead[UNITS * 2][NT];
    fetch(a, ahead, base);
    for (int tile = blockIdx.x; tile < tiles; tile += gridDim.x) {
      float c[NT][4] = {};
      for (int k = 0; k < a.k; k += KS) {
#pragma unroll
        for (int u = 0; u < UNITS * 2; u++)
#pragma unroll
          for (int n = 0; n < NT; n++) v[u][n] = ahead[u][n];
        fetch(a, ahead, (k + KS < a.k ? k + KS : 0) + base);
        barrier_wait(full + slot, phase);
        const u8 *w = ring + slot * STAGE + (part * 16 + g) * PITCH + (base + t * 8) * 2;
#pragma unroll
        for (int u = 0; u < UNITS * 2; u++) {
          if (k + base + u * 32 >= a.k) break;
          uint4 p = *(const uint4 *)(w + u * 64), q = *(const uint4 *)(w + u * 64 + 8 * PITCH);
#pragma unroll
          for (int n = 0; n < NT; n++) {
            mma(c[n], p.x, q.x, p.y, q.y, v[u][n].x, v[u][n].y);
            mma(c[n], p.z, q.z, p.w, q.w, v[u][n].z, v[u][n].w);
          }
        }
        __syncwarp();
        if (lane == 0) barrier_arrive(empty + slot);
        if (++slot == STAGES) slot = 0, phase ^= 1;
      }
      float *mine = red + warp * RED;
#pragma unroll
      for (int n = 0; n < NT; n++) {
        float *col = mine + (n * 8 + 2 * t) * RED_PITCH + g;
        col[0] = c[n][0], col[RED_PITCH] = c[n][1], col[8] = c[n][2], col[RED_PITCH + 8] = c[n][3];
      }
      asm volatile("bar.sync 1, 256;" ::: "memory");
      finish(a, red, scale, tile);
      asm volatile("bar.sync 1, 256;" ::: "memory");
    }
  }

  // total is the sum over the warps that shared tile part, in a fixed order.
  __device__ static __forceinline__ float total(const float *red, int part, int seq, int r) {
    float s = 0.f;
#pragma unroll
    for (int i = 0; i < SLICES; i++) s += red[(i * RT + part) * RED + seq * RED_PITCH + r];
    return s;
  }

  // finish writes the results of one tile; 16 neighbouring threads have the
  // rows of one sequence.
  __device__ static __forceinline__ void finish(const LinearArgs &a, const float *red, const float *scale, int tile) {
    for (int i = threadIdx.x; i < RT * NT * 128; i += CONSUMERS * WARP) {
      int r = i % 16, seq = i / 16 % (NT * 8), part = i / (16 * NT * 8);
      if (OUT == SWIGLU) {
        int o = (tile * RT + part) * 8 + r;
        if (r >= 8 || seq >= a.batch || o >= a.n) continue;
        float gate = total(red, part, seq, r) * scale[seq], up = total(red, part, seq, r + 8) * scale[seq];
        a.h[(u64)seq * a.n + o] = narrow(gate / (1.f + __expf(-gate)) * up);
        continue;
      }
      int o = tile * ROWS + part * 16 + r;
      if (OUT == SCORES) {
        if (seq < a.batch && o < a.n) a.y[(u64)seq * a.n + o] = total(red, part, seq, r) * scale[seq];
        continue;
      }
      float x = 0.f;
      if (seq < a.batch && o < a.n) {
        u64 at = (u64)seq * a.n + o;
        x = a.y[at] + total(red, part, seq, r);
        a.y[at] = x;
        a.h[at] = narrow(x * wide(a.norm[o]));
      }
      float ss = x * x;
#pragma unroll
      for (int d = 8; d > 0; d /= 2) ss += __shfl_xor_sync(FULL, ss, d);
      if (r == 0 && seq < a.batch && o < a.n) a.sums[(u64)seq * (a.n / 16) + o / 16] = ss;
    }
  }

  __device__ static void run(const LinearArgs &a) {
    extern __shared__ __align__(128) u8 ring[];
    __shared__ u64 full[STAGES], empty[STAGES];
    __shared__ float red[CONSUMERS * RED];
    __shared__ float scale[NT * 8];
    int tiles = OUT == SWIGLU ? (a.n + 8 * RT - 1) / (8 * RT) : (a.n + ROWS - 1) / ROWS;
    int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    if (threadIdx.x == 0) {
      for (int i = 0; i < STAGES; i++) barrier_init(full + i, 1), barrier_init(empty + i, CONSUMERS);
      asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
    }
    __syncthreads();
    let_next_start();
    if (warp == CONSUMERS) {
      produce(a, ring, full, empty, tiles);
      return;
    }
    after_previous();
    if (OUT != RESIDUAL) {
      for (int seq = warp; seq < a.batch; seq += CONSUMERS) {
        float ss = 0.f;
        for (int i = lane; i < a.k / 16; i += WARP) ss += a.squares[(u64)seq * (a.k / 16) + i];
        ss = warp_sum(ss);
        if (lane == 0) scale[seq] = rsqrtf(ss / a.k + a.eps);
      }
      asm volatile("bar.sync 1, 256;" ::: "memory");
    }
    consume(a, ring, full, empty, red, scale, tiles);
  }
};

#define LINEAR(name, NT, RT, KS, STAGES, OUT)                                                                              \
  extern "C" __global__ void __launch_bounds__((CONSUMERS + 1) * WARP, 1)                                                   \
      name(const bf16 *w, const bf16 *x, int n, int k, int batch, float eps, const float *squares, float *y, bf16 *h, float *sums, \
           const bf16 *norm) {                                                                                             \
    LinearArgs a = {w, x, n, k, batch, eps, squares, y, h, sums, norm};                                                    \
    Linear<NT, RT, KS, STAGES, OUT>::run(a);                                                                               \
  }

// The names end in the largest batch. The host knows the shapes as linearShapes.
LINEAR(linear_scores_8, 1, 1, 512, 5, SCORES)
LINEAR(linear_residual_8, 1, 1, 512, 5, RESIDUAL)
LINEAR(linear_swiglu_8, 1, 1, 512, 5, SWIGLU)
LINEAR(linear_scores_16, 2, 2, 256, 5, SCORES)
LINEAR(linear_residual_16, 2, 2, 256, 5, RESIDUAL)
LINEAR(linear_swiglu_16, 2, 2, 256, 5, SWIGLU)
LINEAR(linear_scores_32, 4, 4, 128, 4, SCORES)
LINEAR(linear_residual_32, 4, 4, 128, 4, RESIDUAL)
LINEAR(linear_swiglu_32, 4, 4, 128, 4, SWIGLU)

#endif

"""Time vLLM's all-reduce of bf16 between the ranks inside a CUDA graph, by bytes: torchrun --nproc-per-node 2 collective.py OUT"""
import json, os, sys, time
import torch
import torch.distributed as dist
from vllm.config import VllmConfig, set_current_vllm_config
from vllm.distributed import parallel_state as ps
rank = int(os.environ["LOCAL_RANK"])
torch.cuda.set_device(rank)
rows = []
with set_current_vllm_config(VllmConfig()):
    ps.init_distributed_environment(world_size=int(os.environ["WORLD_SIZE"]), rank=rank, local_rank=rank, distributed_init_method="env://", backend="nccl")
    ps.initialize_model_parallel(int(os.environ["WORLD_SIZE"]))
    for p in range(11, 29):
        n = 2 ** p
        h = 2048 if n >= 4096 else n // 2
        x = torch.zeros(n // 2 // h, h, dtype=torch.bfloat16, device="cuda")
        reps = 20 if n < 2 ** 24 else 5
        try:
            for _ in range(3):
                y = ps.get_tp_group().all_reduce(x)
            torch.cuda.synchronize()
            with ps.graph_capture(device=torch.device("cuda", rank)) as c:
                g = torch.cuda.CUDAGraph()
                with torch.cuda.graph(g, stream=c.stream):
                    for _ in range(reps):
                        y = ps.get_tp_group().all_reduce(x)
            best = []
            for _ in range(8):
                a, b = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
                torch.cuda.synchronize(); dist.barrier()
                a.record(); g.replay(); b.record(); torch.cuda.synchronize()
                best.append(a.elapsed_time(b) / reps * 1e3)
            best.sort()
            rows.append({"bytes": n, "us_median": best[len(best) // 2], "us_min": best[0]})
        except Exception as e:
            rows.append({"bytes": n, "error": repr(e)[:300]})
        if rank == 0:
            print(rows[-1], flush=True)
if rank == 0:
    json.dump(rows, open(os.path.join(sys.argv[1], "collective.json"), "w"))
os._exit(0)

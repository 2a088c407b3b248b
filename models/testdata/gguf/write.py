"""Write small files with llama.cpp and keep their headers: python gguf/write.py LIBRARIES SCRATCH, in models/testdata."""
import sys; sys.path.insert(0,'.')
import llamacpp_mix as X, os, json, ctypes, gzip
out='gguf/'; tmp=sys.argv[2]
T={
 'tiny-llama':('llama',dict(e=256,n=10,h=8,kv=2,v=512,ff=512),{'rope.dimension_count':32}),
 'tiny-qwen2':('qwen2',dict(e=256,n=9,h=8,kv=2,v=512,ff=768,tied=1,qkvbias=1),{}),
 'tiny-qwen3moe':('qwen3moe',dict(e=256,n=9,h=8,kv=2,hd=64,v=512,ff=512,qknorm=1,ne=16,ew=256),{'attention.key_length':64,'attention.value_length':64,'expert_count':16,'expert_used_count':2,'expert_feed_forward_length':256}),
 'tiny-mixtral':('llama',dict(e=256,n=9,h=8,kv=2,v=512,ff=512,ne=8,ew=512),{'rope.dimension_count':32,'expert_count':8,'expert_used_count':2}),
 'tiny-gemma2':('gemma2',dict(e=256,n=9,h=4,kv=2,hd=64,v=512,ff=512,tied=1,norms=['post_attention_norm','ffn_norm','post_ffw_norm']),{'attention.key_length':64,'attention.value_length':64,'attention.sliding_window':128}),
 'tiny-phi3':('phi3',dict(e=256,n=9,h=8,kv=8,v=512,ff=512,fused=1),{'rope.dimension_count':32,'attention.sliding_window':2047,'rope.scaling.original_context_length':4096}),
 'tiny-deepseek2':('deepseek2',dict(e=256,n=9,h=8,kv=1,v=512,ff=512,mla=1,rank=256,nope=64,vd=64,qr=256,ne=16,ew=256,sw=256,dense=1,probs=1),{'attention.key_length':320,'attention.value_length':256,'attention.key_length_mla':128,'attention.value_length_mla':64,'attention.kv_lora_rank':256,'attention.q_lora_rank':256,'rope.dimension_count':64,'expert_count':16,'expert_used_count':2,'expert_feed_forward_length':256,'expert_shared_count':1,'leading_dense_block_count':1,'expert_gating_func':2}),
 'tiny-gpt-oss':('gpt-oss',dict(e=288,n=8,h=8,kv=2,hd=64,v=512,ff=288,qkvbias=1,obias=1,sinks=1,ne=8,ew=288,norms=['post_attention_norm']),{'attention.key_length':64,'attention.value_length':64,'expert_count':8,'expert_used_count':2,'expert_feed_forward_length':288,'attention.sliding_window':128}),
}
MIX={'tiny-llama':['Q4_K_M','Q5_K_M','Q3_K_L','Q2_K','Q8_0','IQ4_XS','IQ3_M','TQ1_0','TQ2_0','Q4_0'],'tiny-qwen2':['Q4_K_M'],'tiny-qwen3moe':['Q4_K_M','MXFP4_MOE'],'tiny-mixtral':['Q4_K_M','Q3_K_M'],'tiny-gemma2':['Q4_K_M','IQ4_NL'],'tiny-phi3':['Q4_K_M'],'tiny-deepseek2':['Q4_K_M','Q6_K'],'tiny-gpt-oss':['Q4_K_M','MXFP4_MOE']}
import gguf, numpy as np
ft={m.name.replace('MOSTLY_',''):m.value for m in gguf.LlamaFileType}
sizes={}
def header(path):
    r=gguf.GGUFReader(path); return int(r.data_offset)
def keep(path,name):
    h=header(path); b=open(path,'rb').read()
    with gzip.GzipFile(out+name+'.gguf.gz','wb',mtime=0) as f: f.write(b[:h])
    sizes[name]=len(b)
for name,(arch,c,kv) in T.items():
    p=f'{tmp}/{name}.gguf'; k=X.base(c); k.update(kv); k['general.file_type']=1
    start=X.write(p,arch,k,X.table(c))
    n=os.path.getsize(p)
    with open(p,'r+b') as f:
        f.seek(start); f.write(np.random.default_rng(0).normal(0,.02,(n-start)//2).astype(np.float16).tobytes())
    keep(p,name+'.f16')
    for m in MIX[name]:
        q=f'{tmp}/{name}.{m.lower()}.gguf'
        P=X.L.llama_model_quantize_default_params(); P.ftype=ft[m]; P.nthread=1
        X.log.clear()
        rc=X.L.llama_model_quantize(p.encode(),q.encode(),ctypes.byref(P))
        if rc: print(name,m,''.join(X.log)[-300:]); continue
        keep(q,name+'.'+m.lower())
for name in ['llama3.1-8b','deepseek-v2-lite','gpt-oss-20b','qwen3-30b-a3b']: # sparse
    p=f'{tmp}/{name}.gguf'; arch,c,kv=X.M[name]; k=X.base(c); k.update(kv); k['general.file_type']=1; X.write(p,arch,k,X.table(c)); h=header(p)
    with gzip.GzipFile(out+name+'.f16.gguf.gz','wb',mtime=0) as f: f.write(open(p,'rb').read(h))
    sizes[name+'.f16']=os.path.getsize(p)
json.dump(sizes,open(out+'sizes.json','w'),indent=1)

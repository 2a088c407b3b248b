"""Ask llama.cpp itself which type each tensor gets: llama_model_quantize with dry_run over files that hold a
header and no weights (sparse). Run it as: python llamacpp_mix.py LIBRARIES SCRATCH > llamacpp_mix.jsonl
It needs gguf and numpy. types(), write() and M serve gguf/write.py too."""
import ctypes, json, os, re, sys
import gguf
d=sys.argv[1]+'/' # a folder with llama.cpp's libraries, as npm's @node-llama-cpp/linux-x64 3.22.1 has them in bins/linux-x64
ctypes.CDLL(d+'libggml-base.so',mode=ctypes.RTLD_GLOBAL)
g=ctypes.CDLL(d+'libggml.v0.5.0.so',mode=ctypes.RTLD_GLOBAL)
g.ggml_backend_load_all_from_path(d.encode())
L=ctypes.CDLL(d+'libllama.v0.5.0.so',mode=ctypes.RTLD_GLOBAL)
class P(ctypes.Structure):
    _fields_=[('nthread',ctypes.c_int32),('ftype',ctypes.c_int32),('ot',ctypes.c_int32),('te',ctypes.c_int32)]+[(n,ctypes.c_bool) for n in 'allow_requantize quantize_output_tensor only_copy pure keep_split dry_run'.split()]+[(n,ctypes.c_void_p) for n in 'imatrix kv tt prune'.split()]
L.llama_model_quantize_default_params.restype=P
L.llama_model_quantize.argtypes=[ctypes.c_char_p,ctypes.c_char_p,ctypes.POINTER(P)]
log=[]
CB=ctypes.CFUNCTYPE(None,ctypes.c_int,ctypes.c_char_p,ctypes.c_void_p)
cb=CB(lambda lv,t,u: log.append(t.decode('utf8','replace')))
L.llama_log_set(cb,None)
Q=gguf.GGMLQuantizationType
def write(path,arch,kv,tensors):
    w=gguf.GGUFWriter(path,arch)
    for k,v in kv.items():
        k=k if k.startswith(('general.','tokenizer.')) else arch+'.'+k
        if isinstance(v,float): w.add_float32(k,v)
        elif isinstance(v,str): w.add_string(k,v)
        elif isinstance(v,list): w.add_array(k,v)
        else: w.add_uint32(k,v)
    w.add_string('tokenizer.ggml.model','none') if 'tokenizer.ggml.model' not in kv else None
    total=0
    for n,shape,t in tensors: # shape innermost first
        nb=4 if t==Q.F32 else 2
        for s in shape: nb*=s
        import numpy as np
        w.add_tensor_info(n,list(reversed(shape)),np.dtype('float32') if t==Q.F32 else np.dtype('float16'),nb)
        total+= (nb+31)//32*32
    w.write_header_to_file(); w.write_kv_data_to_file(); w.write_ti_data_to_file(); w.close()
    size=os.path.getsize(path); size=(size+31)//32*32
    with open(path,'r+b') as f: f.truncate(size+total)
    return size
class I(ctypes.Structure): _fields_=[('name',ctypes.c_char_p),('data',ctypes.POINTER(ctypes.c_float)),('size',ctypes.c_size_t)]
one=(ctypes.c_float*1)(1.0)
IM=(I*2)(I(b'none',one,1),I(None,None,0))
NEED={'IQ1_S','IQ1_M','IQ2_XXS','IQ2_XS','IQ2_S','IQ2_M','IQ3_XXS','IQ3_XS','Q2_K_S'}
def types(path,ftype,imatrix=False):
    p=L.llama_model_quantize_default_params(); p.ftype=ftype; p.dry_run=True; p.nthread=1
    if imatrix: p.imatrix=ctypes.addressof(IM)
    log.clear()
    rc=L.llama_model_quantize(path.encode(),b'/tmp/never.gguf',ctypes.byref(p))
    return rc,''.join(log)
# ---- models
F16,F32=Q.F16,Q.F32
def base(c): 
    return {'context_length':4096,'embedding_length':c['e'],'block_count':c['n'],'feed_forward_length':c.get('ff',0),'attention.head_count':c['h'],
      'attention.head_count_kv':c['kv'],'attention.layer_norm_rms_epsilon':1e-5,'rope.freq_base':10000.0,'vocab_size':c['v']}
def table(c):
    e,n,h,kv,v,hd=c['e'],c['n'],c['h'],c['kv'],c['v'],c.get('hd') or c['e']//c['h']
    t=[('token_embd.weight',[e,v],F16)]
    if not c.get('tied'): t.append(('output.weight',[e,v],F16))
    t.append(('output_norm.weight',[e],F32))
    if c.get('ropefreqs'): t.append(('rope_freqs.weight',[hd//2],F32))
    for i in range(n):
        b=f'blk.{i}.'
        t.append((b+'attn_norm.weight',[e],F32))
        if c.get('mla'):
            r,nope,vd,qr=c['rank'],c['nope'],c['vd'],c.get('qr',0); rope=64
            if qr: t+=[(b+'attn_q_a.weight',[e,qr],F16),(b+'attn_q_a_norm.weight',[qr],F32),(b+'attn_q_b.weight',[qr,h*(nope+rope)],F16)]
            else: t.append((b+'attn_q.weight',[e,h*(nope+rope)],F16))
            t+=[(b+'attn_kv_a_mqa.weight',[e,r+rope],F16),(b+'attn_kv_a_norm.weight',[r],F32),(b+'attn_k_b.weight',[nope,r,h],F16),(b+'attn_v_b.weight',[r,vd,h],F16),(b+'attn_output.weight',[h*vd,e],F16)]
        elif c.get('fused'):
            t+=[(b+'attn_qkv.weight',[e,(h+2*kv)*hd],F16),(b+'attn_output.weight',[h*hd,e],F16)]
        else:
            t+=[(b+'attn_q.weight',[e,h*hd],F16),(b+'attn_k.weight',[e,kv*hd],F16),(b+'attn_v.weight',[e,kv*hd],F16),(b+'attn_output.weight',[h*hd,e],F16)]
            if c.get('qkvbias'): t+=[(b+'attn_q.bias',[h*hd],F32),(b+'attn_k.bias',[kv*hd],F32),(b+'attn_v.bias',[kv*hd],F32)]
            if c.get('obias'): t+=[(b+'attn_output.bias',[e],F32)]
            if c.get('qknorm'): t+=[(b+'attn_q_norm.weight',[hd],F32),(b+'attn_k_norm.weight',[hd],F32)]
            if c.get('sinks'): t+=[(b+'attn_sinks.weight',[h],F32)]
        for x in c.get('norms',['ffn_norm']): t.append((b+x+'.weight',[e],F32))
        ff=c.get('ff',0); ne=c.get('ne',0)
        if ne and i>=c.get('dense',0):
            w=c['ew']
            t+=[(b+'ffn_gate_inp.weight',[e,ne],F32),(b+'ffn_gate_exps.weight',[e,w,ne],F16),(b+'ffn_up_exps.weight',[e,w,ne],F16),(b+'ffn_down_exps.weight',[w,e,ne],F16)]
            if c.get('sinks'): t+=[(b+'ffn_gate_inp.bias',[ne],F32),(b+'ffn_gate_exps.bias',[w,ne],F32),(b+'ffn_up_exps.bias',[w,ne],F32),(b+'ffn_down_exps.bias',[e,ne],F32)]
            if c.get('probs'): t+=[(b+'exp_probs_b.bias',[ne],F32)]
            if c.get('sw'):
                s=c['sw']; t+=[(b+'ffn_gate_shexp.weight',[e,s],F16),(b+'ffn_up_shexp.weight',[e,s],F16),(b+'ffn_down_shexp.weight',[s,e],F16)]
        elif c.get('fused'):
            t+=[(b+'ffn_up.weight',[e,2*ff],F16),(b+'ffn_down.weight',[ff,e],F16)]
        else:
            t+=[(b+'ffn_gate.weight',[e,ff],F16),(b+'ffn_up.weight',[e,ff],F16),(b+'ffn_down.weight',[ff,e],F16)]
    return t
M={
 'llama2-7b':('llama',dict(e=4096,n=32,h=32,kv=32,v=32000,ff=11008),{'rope.dimension_count':128}),
 'llama3.1-8b':('llama',dict(e=4096,n=32,h=32,kv=8,v=128256,ff=14336,ropefreqs=1),{'rope.dimension_count':128}),
 'llama3.1-70b':('llama',dict(e=8192,n=80,h=64,kv=8,v=128256,ff=28672,ropefreqs=1),{'rope.dimension_count':128}),
 'llama3.1-405b':('llama',dict(e=16384,n=126,h=128,kv=8,v=128256,ff=53248,ropefreqs=1),{'rope.dimension_count':128}),
 'mixtral-8x7b':('llama',dict(e=4096,n=32,h=32,kv=8,v=32000,ff=14336,ne=8,ew=14336),{'rope.dimension_count':128,'expert_count':8,'expert_used_count':2}),
 'qwen2.5-0.5b':('qwen2',dict(e=896,n=24,h=14,kv=2,v=151936,ff=4864,tied=1,qkvbias=1),{}),
 'qwen2.5-7b':('qwen2',dict(e=3584,n=28,h=28,kv=4,v=152064,ff=18944,qkvbias=1),{}),
 'qwen2.5-72b':('qwen2',dict(e=8192,n=80,h=64,kv=8,v=152064,ff=29568,qkvbias=1),{}),
 'qwen3-8b':('qwen3',dict(e=4096,n=36,h=32,kv=8,hd=128,v=151936,ff=12288,qknorm=1),{'attention.key_length':128,'attention.value_length':128}),
 'qwen3-30b-a3b':('qwen3moe',dict(e=2048,n=48,h=32,kv=4,hd=128,v=151936,ff=6144,qknorm=1,ne=128,ew=768),{'attention.key_length':128,'attention.value_length':128,'expert_count':128,'expert_used_count':8,'expert_feed_forward_length':768}),
 'gemma2-9b':('gemma2',dict(e=3584,n=42,h=16,kv=8,hd=256,v=256000,ff=14336,tied=1,norms=['post_attention_norm','ffn_norm','post_ffw_norm']),{'attention.key_length':256,'attention.value_length':256,'attention.sliding_window':4096}),
 'phi-3-mini':('phi3',dict(e=3072,n=32,h=32,kv=32,v=32064,ff=8192,fused=1),{'rope.dimension_count':96,'attention.sliding_window':2047,'rope.scaling.original_context_length':4096}),
 'deepseek-v2-lite':('deepseek2',dict(e=2048,n=27,h=16,kv=1,v=102400,ff=10944,mla=1,rank=512,nope=128,vd=128,ne=64,ew=1408,sw=2816,dense=1),{'attention.key_length':576,'attention.value_length':512,'attention.key_length_mla':192,'attention.value_length_mla':128,'attention.kv_lora_rank':512,'rope.dimension_count':64,'expert_count':64,'expert_used_count':6,'expert_feed_forward_length':1408,'expert_shared_count':2,'leading_dense_block_count':1}),
 'deepseek-v3':('deepseek2',dict(e=7168,n=61,h=128,kv=1,v=129280,ff=18432,mla=1,rank=512,nope=128,vd=128,qr=1536,ne=256,ew=2048,sw=2048,dense=3,probs=1),{'attention.key_length':576,'attention.value_length':512,'attention.key_length_mla':192,'attention.value_length_mla':128,'attention.kv_lora_rank':512,'attention.q_lora_rank':1536,'rope.dimension_count':64,'expert_count':256,'expert_used_count':8,'expert_feed_forward_length':2048,'expert_shared_count':1,'leading_dense_block_count':3,'expert_gating_func':2}),
 'gpt-oss-20b':('gpt-oss',dict(e=2880,n=24,h=64,kv=8,hd=64,v=201088,ff=2880,qkvbias=1,obias=1,sinks=1,ne=32,ew=2880,norms=['post_attention_norm']),{'attention.key_length':64,'attention.value_length':64,'expert_count':32,'expert_used_count':4,'expert_feed_forward_length':2880,'attention.sliding_window':128}),
}
if __name__=='__main__':
    fts=[(m.name.replace('MOSTLY_',''),m.value) for m in gguf.LlamaFileType if m.value not in (0,1,32,1024)]+[('Q2_0',41)]
    for name,(arch,c,kv) in M.items():
        path=f'{sys.argv[2]}/{name}.gguf'
        k=base(c); k.update(kv); k['general.file_type']=1
        write(path,arch,k,table(c))
        for ft,val in fts:
            rc,text=types(path,val,ft in NEED)
            if rc: print(name,ft,rc,text[-300:],file=sys.stderr); continue
            by={}
            for shape,src,rest in re.findall(r'\] +\S+ +- \[([^\]]*)\], type = +(\w+), (.*)',text):
                m=re.search(r'-> +[\d.]+ MiB \((\w+)\)',rest)
                to=(m.group(1) if m else src).upper()
                blk,sz=gguf.GGML_QUANT_SIZES[Q[to]] if to!='Q2_0' else (64,18)
                nel=1
                for x in shape.split(','): nel*=int(x)
                by[to]=by.get(to,0)+nel//blk*sz
            print(json.dumps({'model':name,'mix':ft,'bytes':dict(sorted(by.items()))},separators=(',',':')))

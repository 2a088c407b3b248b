"""Write the configs and safetensors headers of small models, quantized by compressed-tensors 0.17.0 in every preset and
by bitsandbytes in three ways, to layouts.jsonl: python layouts.py SCRATCH > layouts.jsonl. It needs torch,
transformers, compressed-tensors, bitsandbytes and accelerate, and no GPU."""
import glob, json, os, shutil, struct, sys
import torch
from transformers import BitsAndBytesConfig, LlamaConfig, LlamaForCausalLM

scratch = sys.argv[1]

def tiny():
    torch.manual_seed(0)
    c = LlamaConfig(hidden_size=256, intermediate_size=512, num_hidden_layers=3, num_attention_heads=8, num_key_value_heads=2,
                    vocab_size=512, tie_word_embeddings=False)
    return LlamaForCausalLM(c).to(torch.bfloat16)

def compressed(name, scheme, ignore):
    from compressed_tensors.compressors import ModelCompressor
    from compressed_tensors.quantization import QuantizationConfig, apply_quantization_config
    m = tiny()
    apply_quantization_config(m, QuantizationConfig(config_groups={'group_0': scheme}, ignore=['lm_head'] + ignore))
    for module in m.modules():
        for k in ('weight_scale', 'weight_global_scale', 'input_global_scale', 'input_scale'):
            if hasattr(module, k):
                p = getattr(module, k)
                p.data = torch.ones_like(p.data.float()).to(p.dtype)
    c = ModelCompressor.from_pretrained_model(m)
    c.compress_model(m)
    m.save_pretrained(f'{scratch}/{name}')
    c.update_config(f'{scratch}/{name}')

def presets():
    import compressed_tensors.quantization.quant_scheme as q
    for name in q.PRESET_SCHEMES:
        compressed(name, q.preset_name_to_scheme(name, ['Linear']), [])
        if name in ('NVFP4', 'W4A16', 'FP8_DYNAMIC'):
            compressed(name + '-mixed', q.preset_name_to_scheme(name, ['Linear']), ['re:.*self_attn.*'])

def bits_and_bytes():
    tiny().save_pretrained(f'{scratch}/base')
    for name, q in {'bnb-nf4': BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_quant_type='nf4'),
                    'bnb-nf4-nested': BitsAndBytesConfig(load_in_4bit=True, bnb_4bit_use_double_quant=True, bnb_4bit_quant_type='nf4'),
                    'bnb-int8': BitsAndBytesConfig(load_in_8bit=True)}.items():
        m = LlamaForCausalLM.from_pretrained(f'{scratch}/base', quantization_config=q, dtype=torch.bfloat16, device_map='cpu')
        m.save_pretrained(f'{scratch}/{name}')
    shutil.rmtree(f'{scratch}/base')

if len(sys.argv) < 3:
    presets()
    bits_and_bytes()
for d in sorted(glob.glob(scratch + '/*')):
    with open(d + '/model.safetensors', 'rb') as f:
        n = struct.unpack('<Q', f.read(8))[0]
        header = json.loads(f.read(n))
    print(json.dumps({'name': os.path.basename(d), 'size': os.path.getsize(d + '/model.safetensors'),
                      'config': json.load(open(d + '/config.json')), 'header': header}, separators=(',', ':')))

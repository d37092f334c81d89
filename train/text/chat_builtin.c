/* Every template marks what the assistant writes with {% generation %}, so masks need one rendering only. */
#include "train/text/chat_builtin.h"

#define CHATML_TURNS \
    "{% for message in messages %}" \
    "{{ '<|im_start|>' + message['role'] + '\\n' }}" \
    "{% if message['role'] == 'assistant' %}{% generation %}{{ message['content'] + '<|im_end|>' }}{% endgeneration %}" \
    "{% else %}{{ message['content'] + '<|im_end|>' }}{% endif %}" \
    "{{ '\\n' }}" \
    "{% endfor %}" \
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"

#define CHATML_SYSTEM(text) \
    "{% if messages and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\\n" text "<|im_end|>\\n' }}{% endif %}" CHATML_TURNS

const struct chat_builtin chat_builtins[] = {
    {"chatml", CHATML_TURNS},
    {"smollm", CHATML_SYSTEM("You are a helpful AI assistant named SmolLM, trained by Hugging Face")},
    {"qwen", CHATML_SYSTEM("You are Qwen, created by Alibaba Cloud. You are a helpful assistant.")},
    {"qwen2.5", CHATML_SYSTEM("You are Qwen, created by Alibaba Cloud. You are a helpful assistant.")},
    {"qwen3", CHATML_TURNS},
    {"llama3",
     "{{ bos_token if bos_token is defined else '' }}"
     "{% for message in messages %}"
     "{{ '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' }}"
     "{% if message['role'] == 'assistant' %}{% generation %}{{ message['content'] | trim + '<|eot_id|>' }}{% endgeneration %}"
     "{% else %}{{ message['content'] | trim + '<|eot_id|>' }}{% endif %}"
     "{% endfor %}"
     "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}"},
    {"llama2",
     "{% set eos = eos_token if eos_token is defined else '</s>' %}"
     "{% set system = messages[0]['content'] if messages and messages[0]['role'] == 'system' else none %}"
     "{% for message in (messages[1:] if system is not none else messages) %}"
     "{% if message['role'] == 'user' %}"
     "{{ (bos_token if bos_token is defined else '<s>') + '[INST] ' + ('<<SYS>>\\n' + system + '\\n<</SYS>>\\n\\n' if loop.first and system is not none else '') "
     "+ message['content'] | trim + ' [/INST]' }}"
     "{% elif message['role'] == 'assistant' %}{% generation %}{{ ' ' + message['content'] | trim + ' ' + eos }}{% endgeneration %}"
     "{% else %}{{ raise_exception('the llama2 template knows the roles system (first), user and assistant, not ' + message['role']) }}{% endif %}"
     "{% endfor %}"},
    {"mistral",
     "{% set eos = eos_token if eos_token is defined else '</s>' %}"
     "{% set system = messages[0]['content'] if messages and messages[0]['role'] == 'system' else none %}"
     "{{ bos_token if bos_token is defined else '<s>' }}"
     "{% for message in (messages[1:] if system is not none else messages) %}"
     "{% if message['role'] == 'user' %}"
     "{{ '[INST] ' + (system + '\\n\\n' if loop.first and system is not none else '') + message['content'] + ' [/INST]' }}"
     "{% elif message['role'] == 'assistant' %}{% generation %}{{ ' ' + message['content'] | trim + eos }}{% endgeneration %}"
     "{% else %}{{ raise_exception('the mistral template knows the roles system (first), user and assistant, not ' + message['role']) }}{% endif %}"
     "{% endfor %}"},
    {"gemma",
     "{{ bos_token if bos_token is defined else '' }}"
     "{% set system = messages[0]['content'] if messages and messages[0]['role'] == 'system' else none %}"
     "{% for message in (messages[1:] if system is not none else messages) %}"
     "{% if message['role'] == 'assistant' %}"
     "{{ '<start_of_turn>model\\n' }}{% generation %}{{ message['content'] | trim + '<end_of_turn>' }}{% endgeneration %}{{ '\\n' }}"
     "{% else %}"
     "{{ '<start_of_turn>' + message['role'] + '\\n' + (system + '\\n\\n' if loop.first and system is not none else '') + message['content'] | trim + '<end_of_turn>\\n' }}"
     "{% endif %}"
     "{% endfor %}"
     "{% if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}{% endif %}"},
    {"phi3",
     "{% for message in messages %}"
     "{{ '<|' + message['role'] + '|>\\n' }}"
     "{% if message['role'] == 'assistant' %}{% generation %}{{ message['content'] + '<|end|>' }}{% endgeneration %}"
     "{% else %}{{ message['content'] + '<|end|>' }}{% endif %}"
     "{{ '\\n' }}"
     "{% endfor %}"
     "{% if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% endif %}"},
    {0, 0},
};

/* The options that eval and generate share; to is a struct inference_options. */
#ifndef PAWL_CLI_INFERENCE_OPTIONS_H
#define PAWL_CLI_INFERENCE_OPTIONS_H

#define INFERENCE_OPTIONS(to) \
    {"model", 'm', CLI_STRING, &(to).model, "M", "Hugging Face directory, .gguf file or hub id; default: what the adapter was trained on", 0, 0}, \
    {"adapter", 'a', CLI_STRING, &(to).adapter, "DIR", "PEFT adapter or checkpoint directory", 0, 0}, \
    {"chat-template", 0, CLI_STRING, &(to).chat_template, "T", "a built-in name or a file; default: the adapter's or the model's own", 0, 0}, \
    {"load-in-4bit", 0, CLI_FLAG, &(to).load_in_4bit, NULL, "quantise the base to NF4; default: as the adapter was trained, else as the file is", 0, 0}, \
    {"load-in-8bit", 0, CLI_FLAG, &(to).load_in_8bit, NULL, "quantise the base to int8", 0, 0}, \
    {"fp32", 0, CLI_FLAG, &(to).fp32, NULL, "compute in fp32 (slow, for checking)", 0, 0}, \
    {"device", 0, CLI_STRING, &(to).device, "D", "auto (default), cpu", 0, 0}, \
    {"threads", 0, CLI_INT, &(to).threads, "N", "default: all cores", 0, 4096}

#endif

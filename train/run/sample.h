/* Choosing the next token from logits. A choice is a pure function of (logits, options, seed, prompt, position): batches never show in it. */
#ifndef PAWL_RUN_SAMPLE_H
#define PAWL_RUN_SAMPLE_H

#include <stdint.h>

struct sample_options {
    double temperature;        /* 0: the most likely token, whatever the other options */
    double top_p;              /* smallest set of tokens whose probability reaches this (Holtzman et al. 2020); 1: all */
    int64_t top_k;             /* the k most likely; 0: all */
    double min_p;              /* those with at least this share of the best one's probability; 0: all */
    double repetition_penalty; /* divides (multiplies, where negative) the logits of tokens seen so far (Keskar et al. 2019); 1: none */
    uint64_t seed;
};

/* logits (V) are changed. seen[0..nseen) is the sequence so far; prompt and position key the random number. */
int32_t sample_token(float *logits, int64_t V, const struct sample_options *opt, const int32_t *seen, int nseen, int64_t prompt, int64_t position);

#endif

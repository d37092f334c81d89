#include "train/data/loader.h"

#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>

/* Two batches: `ready` is the reader's, the other one the thread's. They change sides only in loader_get, when the thread is idle. */
struct loader {
    struct batch batch[2];
    int ready;
    int64_t wanted; /* step that the thread builds or has built into batch[!ready] */
    bool busy, stop;
    pthread_mutex_t lock;
    pthread_cond_t wake, done;
    pthread_t thread;
};

static void *build_ahead(void *arg)
{
    struct loader *l = arg;

    pthread_mutex_lock(&l->lock);
    for (;;) {
        while (!l->busy && !l->stop) pthread_cond_wait(&l->wake, &l->lock);
        if (l->stop) break;
        struct batch *b = &l->batch[!l->ready];
        int64_t step = l->wanted;

        pthread_mutex_unlock(&l->lock);
        batch_build(b, step);
        pthread_mutex_lock(&l->lock);
        l->busy = false;
        pthread_cond_signal(&l->done);
    }
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

/* With the lock held. */
static void begin(struct loader *l, int64_t step)
{
    l->wanted = step;
    l->busy = true;
    pthread_cond_signal(&l->wake);
}

static void wait_idle(struct loader *l)
{
    while (l->busy) pthread_cond_wait(&l->done, &l->lock);
}

enum pawl_status loader_open(struct loader **out, const struct rows *rows, int64_t first, struct err *err)
{
    struct loader *l = xcalloc(1, sizeof *l);

    batch_init(&l->batch[0], rows);
    batch_init(&l->batch[1], rows);
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->wake, NULL);
    pthread_cond_init(&l->done, NULL);
    l->wanted = first;
    l->busy = true;
    if ((errno = pthread_create(&l->thread, NULL, build_ahead, l)) != 0) {
        batch_free(&l->batch[0]);
        batch_free(&l->batch[1]);
        free(l);
        return err_sys(err, "the loader's thread cannot be started");
    }
    *out = l;
    return PAWL_OK;
}

void loader_close(struct loader *l)
{
    if (!l) return;
    pthread_mutex_lock(&l->lock);
    wait_idle(l);
    l->stop = true;
    pthread_cond_signal(&l->wake);
    pthread_mutex_unlock(&l->lock);
    pthread_join(l->thread, NULL);
    pthread_mutex_destroy(&l->lock);
    pthread_cond_destroy(&l->wake);
    pthread_cond_destroy(&l->done);
    batch_free(&l->batch[0]);
    batch_free(&l->batch[1]);
    free(l);
}

const struct batch *loader_get(struct loader *l, int64_t step)
{
    const struct batch *b;

    pthread_mutex_lock(&l->lock);
    wait_idle(l);
    if (l->wanted != step) {
        begin(l, step);
        wait_idle(l);
    }
    l->ready = !l->ready;
    b = &l->batch[l->ready];
    begin(l, step + 1);
    pthread_mutex_unlock(&l->lock);
    return b;
}

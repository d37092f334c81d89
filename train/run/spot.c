#include "train/run/spot.h"

#include "kernels/base/json.h"
#include "kernels/base/log.h"
#include "kernels/base/mem.h"
#include "train/config/config.h"
#include "kernels/base/clock.h"
#include "train/run/stop.h"

#include <curl/curl.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define CONNECT_MS 500L
#define ANSWER_MS 2000L
#define HANGING_MS 65000L /* the server answers after at most 60 s */
#define POLL_MS 1000
#define MAX_ANSWER 65536
#define GCP_NOTICE 30.0   /* what these clouds leave where they do not say it */
#define AZURE_NOTICE 30.0
#define LONGEST_NOTICE 600.0

struct watcher {
    struct spot *spot;
    const struct cloud *cloud;
    const char *endpoint;
    char *token;          /* AWS: of IMDSv2 */
    bool named;           /* the configuration names the cloud */
    bool rebalance_seen;
    CURLM *multi;
    pthread_t thread;
};

struct cloud {
    const char *name, *variable, *fallback;
    int bit;
    bool (*is_here)(struct watcher *w); /* asks who we are */
    bool (*watch)(struct watcher *w);   /* one question; false: it was not answered */
};

struct spot {
    struct watcher watcher[3];
    int n;
    atomic_bool stop, save_asked, is_spot;
    _Atomic(char *) instance;
};

/* --- one question */

struct answer {
    long code; /* of HTTP; 0: none came */
    struct buf text;
    bool google; /* the header Metadata-Flavor: Google was there */
};

static size_t take_text(char *data, size_t size, size_t n, void *arg)
{
    struct answer *a = arg;

    if (a->text.len + size * n > MAX_ANSWER) return 0;
    buf_add(&a->text, data, size * n);
    return size * n;
}

static size_t take_header(char *data, size_t size, size_t n, void *arg)
{
    static const char flavor[] = "Metadata-Flavor: Google";
    struct answer *a = arg;

    if (size * n >= strlen(flavor) && !strncasecmp(data, flavor, strlen(flavor))) a->google = true;
    return size * n;
}

/* Waits for the answer, for the stop of the watchers, or for the time to run out. */
static void perform(struct watcher *w, CURL *easy)
{
    int running = 1;

    curl_multi_add_handle(w->multi, easy);
    while (running && !atomic_load(&w->spot->stop)) {
        if (curl_multi_perform(w->multi, &running) != CURLM_OK) break;
        if (running) curl_multi_poll(w->multi, NULL, 0, 1000, NULL);
    }
    curl_multi_remove_handle(w->multi, easy);
}

/* method "GET" or "PUT"; header and second may be NULL. */
static struct answer ask(struct watcher *w, const char *method, const char *path, const char *header, const char *second, long limit_ms)
{
    struct answer a = {0};
    CURL *easy = curl_easy_init();
    struct curl_slist *headers = NULL;
    char *url = xasprintf("%s%s%s", strstr(w->endpoint, "://") ? "" : "http://", w->endpoint, path);

    if (!easy) goto done;
    if (header) headers = curl_slist_append(headers, header);
    if (second) headers = curl_slist_append(headers, second);
    curl_easy_setopt(easy, CURLOPT_URL, url);
    curl_easy_setopt(easy, CURLOPT_CUSTOMREQUEST, method);
    curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_NOPROXY, "*");
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, CONNECT_MS);
    curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, limit_ms);
    curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, take_text);
    curl_easy_setopt(easy, CURLOPT_WRITEDATA, &a);
    curl_easy_setopt(easy, CURLOPT_HEADERFUNCTION, take_header);
    curl_easy_setopt(easy, CURLOPT_HEADERDATA, &a);
    perform(w, easy);
    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &a.code);
done:
    if (easy) curl_easy_cleanup(easy);
    curl_slist_free_all(headers);
    free(url);
    buf_add(&a.text, "", 0);
    return a;
}

static void answer_free(struct answer *a)
{
    buf_free(&a->text);
}

static void set_instance(struct watcher *w, const char *text)
{
    const char *slash = strrchr(text, '/'); /* GCP: projects/1/machineTypes/a2-highgpu-1g */
    char *name = xstrdup(slash ? slash + 1 : text), *none = NULL;

    name[strcspn(name, " \r\n")] = 0;
    if (!*name || !atomic_compare_exchange_strong(&w->spot->instance, &none, name)) free(name);
}

/* Seconds until a time of the form 2026-11-30T17:02:00Z; fallback where it is not one, or makes no sense by this machine's clock. */
static double seconds_until(const char *text, const char *format, double fallback)
{
    struct tm tm = {0};
    double left;

    if (!text || !strptime(text, format, &tm)) return fallback;
    left = (double)timegm(&tm) - wall_seconds();
    return left > 0 && left < LONGEST_NOTICE ? left : fallback;
}

/* --- AWS */

#define AWS_NOTICE 120.0

static bool aws_token(struct watcher *w)
{
    struct answer a = ask(w, "PUT", "/latest/api/token", "X-aws-ec2-metadata-token-ttl-seconds: 21600", NULL, ANSWER_MS);
    bool ok = a.code == 200 && a.text.len > 0 && !strpbrk(a.text.data, "\r\n");

    if (ok) {
        free(w->token);
        w->token = xasprintf("X-aws-ec2-metadata-token: %s", a.text.data);
    }
    answer_free(&a);
    return ok;
}

static bool aws_is_here(struct watcher *w)
{
    struct answer type, life;

    if (!aws_token(w)) return false;
    type = ask(w, "GET", "/latest/meta-data/instance-type", w->token, NULL, ANSWER_MS);
    life = ask(w, "GET", "/latest/meta-data/instance-life-cycle", w->token, NULL, ANSWER_MS);
    if (life.code == 200) atomic_store(&w->spot->is_spot, !strncmp(life.text.data, "spot", 4));
    if (type.code == 200) set_instance(w, type.text.data);
    answer_free(&type);
    answer_free(&life);
    return true;
}

/* An answer of 404 says that there is no notice. */
static bool aws_watch(struct watcher *w)
{
    struct answer a = ask(w, "GET", "/latest/meta-data/spot/instance-action", w->token, NULL, ANSWER_MS);
    struct json *json = NULL;
    bool answered = a.code == 200 || a.code == 404;

    if (a.code == 401) answered = aws_token(w);
    if (a.code == 200 && json_parse(&json, a.text.data, a.text.len, NULL) == PAWL_OK)
        stop_notice("AWS spot interruption", seconds_until(json_string(json_get(json_root(json), "time"), NULL), "%Y-%m-%dT%H:%M:%SZ", AWS_NOTICE));
    json_free(json);
    answer_free(&a);
    if (w->rebalance_seen || !answered) return answered;
    a = ask(w, "GET", "/latest/meta-data/events/recommendations/rebalance", w->token, NULL, ANSWER_MS);
    if (a.code == 200) {
        w->rebalance_seen = true;
        atomic_store(&w->spot->save_asked, true);
    }
    answer_free(&a);
    return true;
}

/* --- GCP */

#define GCP_FLAVOR "Metadata-Flavor: Google"
#define GCP_PREEMPTED "/computeMetadata/v1/instance/preempted"

static bool gcp_notice(struct watcher *w, const char *path, long limit_ms)
{
    struct answer a = ask(w, "GET", path, GCP_FLAVOR, NULL, limit_ms);
    bool here = a.code == 200 && a.google;

    if (here && !strncasecmp(a.text.data, "true", 4)) stop_notice("GCP preemption", GCP_NOTICE);
    answer_free(&a);
    return here;
}

static bool gcp_is_here(struct watcher *w)
{
    struct answer type, life;

    if (!gcp_notice(w, GCP_PREEMPTED, ANSWER_MS)) return false;
    type = ask(w, "GET", "/computeMetadata/v1/instance/machine-type", GCP_FLAVOR, NULL, ANSWER_MS);
    life = ask(w, "GET", "/computeMetadata/v1/instance/scheduling/preemptible", GCP_FLAVOR, NULL, ANSWER_MS);
    if (life.code == 200) atomic_store(&w->spot->is_spot, !strncasecmp(life.text.data, "true", 4));
    if (type.code == 200) set_instance(w, type.text.data);
    answer_free(&type);
    answer_free(&life);
    return true;
}

/* The server holds the answer back until something changes, at most 60 s: a notice arrives at once, and hardly anything is asked. */
static bool gcp_watch(struct watcher *w)
{
    return gcp_notice(w, GCP_PREEMPTED "?wait_for_change=true&timeout_sec=60", HANGING_MS);
}

/* --- Azure */

static bool azure_watch(struct watcher *w)
{
    struct answer a = ask(w, "GET", "/metadata/scheduledevents?api-version=2020-07-01", "Metadata: true", NULL, ANSWER_MS);
    const struct json_value *events;
    struct json *json = NULL;
    bool here = a.code == 200 && json_parse(&json, a.text.data, a.text.len, NULL) == PAWL_OK && json_get(json_root(json), "Events");

    events = here ? json_get(json_root(json), "Events") : NULL;
    for (size_t i = 0; events && i < events->len; i++) {
        const struct json_value *e = json_at(events, i);
        const char *type = json_string(json_get(e, "EventType"), "");

        if (!strcmp(type, "Preempt") || !strcmp(type, "Terminate"))
            stop_notice("Azure eviction", seconds_until(json_string(json_get(e, "NotBefore"), NULL), "%a, %d %b %Y %H:%M:%S GMT", AZURE_NOTICE));
    }
    json_free(json);
    answer_free(&a);
    return here;
}

static bool azure_is_here(struct watcher *w)
{
    struct answer a;
    struct json *json = NULL;

    if (!azure_watch(w)) return false;
    a = ask(w, "GET", "/metadata/instance/compute?api-version=2021-02-01", "Metadata: true", NULL, ANSWER_MS);
    if (a.code == 200 && json_parse(&json, a.text.data, a.text.len, NULL) == PAWL_OK) {
        atomic_store(&w->spot->is_spot, !strcmp(json_string(json_get(json_root(json), "priority"), ""), "Spot"));
        set_instance(w, json_string(json_get(json_root(json), "vmSize"), ""));
    }
    json_free(json);
    answer_free(&a);
    return true;
}

static const struct cloud clouds[] = {
    {"aws", "AWS_EC2_METADATA_SERVICE_ENDPOINT", "http://169.254.169.254", SPOT_AWS, aws_is_here, aws_watch},
    {"gcp", "GCE_METADATA_HOST", "metadata.google.internal", SPOT_GCP, gcp_is_here, gcp_watch},
    {"azure", "PAWL_AZURE_METADATA_ENDPOINT", "http://169.254.169.254", SPOT_AZURE, azure_is_here, azure_watch},
};

/* --- threads */

static void rest(struct watcher *w)
{
    if (!atomic_load(&w->spot->stop)) curl_multi_poll(w->multi, NULL, 0, POLL_MS, NULL);
}

static void *run_watcher(void *arg)
{
    struct watcher *w = arg;
    bool said = false;

    while (!w->cloud->is_here(w) && !atomic_load(&w->spot->stop)) {
        if (!w->named) return NULL;
        if (!said) log_warn("spot: %s does not answer at %s: it is asked on", w->cloud->name, w->endpoint);
        said = true;
        rest(w);
    }
    if (!atomic_load(&w->spot->stop)) log_debug("spot: listening to %s", w->cloud->name);
    while (!atomic_load(&w->spot->stop)) {
        struct timespec begin = time_now();

        /* A hanging GET that was answered is asked again at once, unless the server does not hang. */
        if (!w->cloud->watch(w) || w->cloud->bit != SPOT_GCP || seconds_between(begin, time_now()) < 0.1) rest(w);
    }
    return NULL;
}

struct spot *spot_open(int which)
{
    struct spot *s;

    if (which == SPOT_OFF || curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) return NULL;
    s = xcalloc(1, sizeof *s);
    for (size_t i = 0; i < sizeof clouds / sizeof *clouds; i++) {
        struct watcher *w = &s->watcher[s->n];
        const char *given = getenv(clouds[i].variable);

        if (which != SPOT_AUTO && !(which & clouds[i].bit)) continue;
        *w = (struct watcher){.spot = s, .cloud = &clouds[i], .endpoint = given && *given ? given : clouds[i].fallback, .named = which != SPOT_AUTO, .multi = curl_multi_init()};
        if (w->multi && (errno = pthread_create(&w->thread, NULL, run_watcher, w)) == 0) s->n++;
        else curl_multi_cleanup(w->multi);
    }
    return s;
}

void spot_close(struct spot *s)
{
    if (!s) return;
    atomic_store(&s->stop, true);
    for (int i = 0; i < s->n; i++) {
        curl_multi_wakeup(s->watcher[i].multi);
        pthread_join(s->watcher[i].thread, NULL);
        curl_multi_cleanup(s->watcher[i].multi);
        free(s->watcher[i].token);
    }
    free(atomic_load(&s->instance));
    free(s);
    curl_global_cleanup();
}

bool spot_save_asked(struct spot *s)
{
    return s && atomic_exchange(&s->save_asked, false);
}

const char *spot_instance(struct spot *s, bool *is_spot)
{
    if (!s) return NULL;
    *is_spot = atomic_load(&s->is_spot);
    return atomic_load(&s->instance);
}

#include "train/run/inference.h"

#include "ckpt/fileio.h"
#include "kernels/base/log.h"
#include "kernels/base/mem.h"
#include "train/config/locate.h"
#include "train/run/base.h"

#include <stdlib.h>
#include <string.h>

/* The configuration that a checkpoint of pawl carries; NULL where the adapter comes from elsewhere. */
static enum pawl_status trained_config(struct config **out, const char *adapter, struct err *err)
{
    char *path;
    enum pawl_status st = PAWL_OK;

    *out = NULL;
    if (!adapter) return PAWL_OK;
    path = xasprintf("%s/config.yaml", adapter);
    if (file_exists(path)) st = config_load(out, path, NULL, 0, err);
    free(path);
    return st;
}

static struct model_storage storage_of(const struct inference_options *opt, const struct config *trained)
{
    struct model_storage s = {STORAGE_AS_IT_IS, DTYPE_NF4, true};

    if (opt->load_in_8bit) s.storage = STORAGE_8BIT;
    else if (opt->load_in_4bit) s.storage = STORAGE_4BIT;
    else if (trained)
        s = (struct model_storage){config_base_storage(trained), trained->bnb_4bit_quant_type == CONFIG_FP4 ? DTYPE_FP4 : DTYPE_NF4, trained->bnb_4bit_use_double_quant};
    return s;
}

static enum pawl_status open_adapter(struct inference *in, const char *dir, struct err *err)
{
    enum pawl_status st;

    if (!dir) return PAWL_OK;
    if ((st = lora_open(&in->lora, &in->model->spec, dir, err)) != PAWL_OK) return st;
    arena_reserve(&in->adapter, "adapter", (size_t)in->lora.n * sizeof *in->theta, &in->theta);
    arena_reserve(&in->adapter, "adapter", (size_t)in->lora.n * (size_t)dtype_info[in->dev->act].bytes, &in->operand);
    if ((st = dev_arena_alloc(in->dev, &in->adapter, err)) != PAWL_OK || (st = lora_read(&in->lora, arena_host(&in->adapter, in->theta), dir, err)) != PAWL_OK) return st;
    dev_send(in->dev, &in->adapter, in->theta, (size_t)in->lora.n * sizeof *in->theta);
    in->dev->ops->round_operand(in->dev, in->operand, in->theta, in->lora.n);
    return PAWL_OK;
}

static enum pawl_status open_template(struct inference *in, const char *path, const char *given, struct err *err)
{
    const struct config *c = in->trained;

    if (given && file_exists(given)) return base_template(&in->chat, path, "jinja", given, err);
    if (given) return base_template(&in->chat, path, given, NULL, err);
    return base_template(&in->chat, path, c ? c->chat_template : NULL, c ? c->chat_template_jinja : NULL, err);
}

enum pawl_status inference_open(struct inference *in, const struct inference_options *opt, struct err *err)
{
    char *path = NULL;
    const char *model = opt->model;
    enum dtype type = opt->fp32 ? DTYPE_F32 : DTYPE_BF16;
    enum pawl_status st;

    *in = (struct inference){0};
    if ((st = trained_config(&in->trained, opt->adapter, err)) != PAWL_OK) return st;
    if (!model && in->trained) model = in->trained->base_model;
    if (!model) return err_set(err, PAWL_EUSAGE, "--model is missing, and there is no --adapter that names its base");
    if (in->trained && in->trained->bf16 == CONFIG_OFF) type = DTYPE_F32;
    if ((st = dev_open(&in->dev, opt->device ? opt->device : "auto", type, (int)opt->threads, err)) != PAWL_OK) goto done;
    if ((st = locate(&path, model, LOCATE_MODEL, NULL, err)) != PAWL_OK) goto done;
    if ((st = model_open(&in->model, path, storage_of(opt, in->trained), err)) != PAWL_OK) goto done;
    if ((st = model_place(in->model, in->dev, err)) == PAWL_ENOMEM && model_embed_bytes(in->model)) {
        in->model->embed_on_host = true;
        st = model_place(in->model, in->dev, err);
    }
    if (st != PAWL_OK || (st = open_adapter(in, opt->adapter, err)) != PAWL_OK) goto done;
    if ((st = base_tokenizer(&in->tokenizer, path, in->model->spec.V, in->trained, err)) != PAWL_OK) goto done;
    st = open_template(in, path, opt->chat_template, err);
done:
    free(path);
    return st;
}

void inference_close(struct inference *in)
{
    chat_template_free(in->chat);
    tokenizer_close(in->tokenizer);
    dev_arena_free(in->dev, &in->adapter);
    lora_free(&in->lora);
    model_close(in->model);
    dev_close(in->dev);
    config_free(in->trained);
    *in = (struct inference){0};
}

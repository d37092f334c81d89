#include "train/run/prices.h"

#include "kernels/base/mem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <yaml.h>

/* The first of the places that can be read. */
static FILE *open_prices(void)
{
    static const char *const beside[] = {"../configs", "../../configs", "../share/pawl"};
    const char *config = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    char *path = config && *config ? xasprintf("%s/pawl/prices.yaml", config) : xasprintf("%s/.config/pawl/prices.yaml", home ? home : "");
    char self[4096];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    FILE *f = fopen(path, "rb");

    free(path);
    self[n > 0 ? n : 0] = 0;
    if (strrchr(self, '/')) *strrchr(self, '/') = 0;
    for (size_t i = 0; !f && n > 0 && i < sizeof beside / sizeof *beside; i++) {
        path = xasprintf("%s/%s/prices.yaml", self, beside[i]);
        f = fopen(path, "rb");
        free(path);
    }
    return f;
}

/* The value of a scalar key of a mapping, or NULL. */
static yaml_node_t *member(yaml_document_t *doc, yaml_node_t *map, const char *key)
{
    if (!map || map->type != YAML_MAPPING_NODE) return NULL;
    for (yaml_node_pair_t *p = map->data.mapping.pairs.start; p < map->data.mapping.pairs.top; p++) {
        yaml_node_t *k = yaml_document_get_node(doc, p->key);

        if (k->type == YAML_SCALAR_NODE && !strcmp((const char *)k->data.scalar.value, key)) return yaml_document_get_node(doc, p->value);
    }
    return NULL;
}

static const char *text_of(const yaml_node_t *n)
{
    return n && n->type == YAML_SCALAR_NODE ? (const char *)n->data.scalar.value : "";
}

double price_an_hour(const char *instance, bool is_spot)
{
    FILE *f = open_prices();
    yaml_parser_t parser;
    yaml_document_t doc;
    double price = 0;

    if (!f) return 0;
    yaml_parser_initialize(&parser);
    yaml_parser_set_input_file(&parser, f);
    if (yaml_parser_load(&parser, &doc)) {
        yaml_node_t *list = member(&doc, yaml_document_get_root_node(&doc), "instances");

        for (yaml_node_item_t *i = list && list->type == YAML_SEQUENCE_NODE ? list->data.sequence.items.start : NULL; i && i < list->data.sequence.items.top; i++) {
            yaml_node_t *entry = yaml_document_get_node(&doc, *i);

            if (!strcmp(text_of(member(&doc, entry, "name")), instance)) price = atof(text_of(member(&doc, entry, is_spot ? "spot" : "on_demand")));
        }
        yaml_document_delete(&doc);
    }
    yaml_parser_delete(&parser);
    fclose(f);
    return price;
}

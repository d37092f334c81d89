/* What an instance costs, from prices.yaml: $XDG_CONFIG_HOME/pawl/prices.yaml (~/.config), else configs/ or share/pawl/ beside the program. */
#ifndef PAWL_RUN_PRICES_H
#define PAWL_RUN_PRICES_H

#include <stdbool.h>

/* US dollars an hour; 0 where the file or the instance is not known, or has no price of that kind. */
double price_an_hour(const char *instance, bool is_spot);

#endif

#include "train/text/unicode.h"

#include <utf8proc.h>

#define S (UC_SPACE)
#define W (UC_SPACE | UC_NEWLINE)
#define D (UC_NUMBER | UC_WORD)
#define U (UC_LETTER | UC_UPPER | UC_WORD)
#define L (UC_LETTER | UC_LOWER | UC_WORD)
#define P (UC_PUNCT)
#define Y (UC_SYMBOL)

const uint16_t unicode_ascii[128] = {
    0, 0, 0, 0, 0, 0, 0, 0, 0, S, W, S, S, W, 0, 0, /* 00 */
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, /* 10 */
    S, P, P, P, Y, P, P, P, P, P, P, Y, P, P, P, P, /* 20 */
    D, D, D, D, D, D, D, D, D, D, P, P, Y, Y, Y, P, /* 30 */
    P, U, U, U, U, U, U, U, U, U, U, U, U, U, U, U, /* 40 */
    U, U, U, U, U, U, U, U, U, U, U, P, P, P, Y, P | UC_WORD, /* 50 */
    Y, L, L, L, L, L, L, L, L, L, L, L, L, L, L, L, /* 60 */
    L, L, L, L, L, L, L, L, L, L, L, P, Y, P, Y, 0, /* 70 */
};

static bool is_space(uint32_t cp)
{
    return cp == 0x85 || cp == 0xA0 || cp == 0x1680 || (cp >= 0x2000 && cp <= 0x200A) || cp == 0x2028 || cp == 0x2029 || cp == 0x202F || cp == 0x205F ||
           cp == 0x3000;
}

unsigned unicode_class_of(uint32_t cp)
{
    static const uint16_t of_category[] = {
        [UTF8PROC_CATEGORY_LU] = U, [UTF8PROC_CATEGORY_LL] = L,
        [UTF8PROC_CATEGORY_LT] = UC_LETTER | UC_WORD, [UTF8PROC_CATEGORY_LM] = UC_LETTER | UC_WORD, [UTF8PROC_CATEGORY_LO] = UC_LETTER | UC_WORD,
        [UTF8PROC_CATEGORY_MN] = UC_MARK | UC_WORD, [UTF8PROC_CATEGORY_MC] = UC_MARK | UC_WORD, [UTF8PROC_CATEGORY_ME] = UC_MARK | UC_WORD,
        [UTF8PROC_CATEGORY_ND] = D, [UTF8PROC_CATEGORY_NL] = D, [UTF8PROC_CATEGORY_NO] = UC_NUMBER,
        [UTF8PROC_CATEGORY_PC] = P | UC_WORD, [UTF8PROC_CATEGORY_PD] = P, [UTF8PROC_CATEGORY_PS] = P, [UTF8PROC_CATEGORY_PE] = P,
        [UTF8PROC_CATEGORY_PI] = P, [UTF8PROC_CATEGORY_PF] = P, [UTF8PROC_CATEGORY_PO] = P,
        [UTF8PROC_CATEGORY_SM] = Y, [UTF8PROC_CATEGORY_SC] = Y, [UTF8PROC_CATEGORY_SK] = Y, [UTF8PROC_CATEGORY_SO] = Y,
        [UTF8PROC_CATEGORY_CO] = 0,
    };

    if (cp < 128) return unicode_ascii[cp];
    return of_category[utf8proc_category((utf8proc_int32_t)cp)] | (is_space(cp) ? UC_SPACE : 0);
}

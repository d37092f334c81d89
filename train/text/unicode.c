#include "train/text/unicode.h"

#include <utf8proc.h>

#define S (UC_SPACE)
#define W (UC_SPACE | UC_NEWLINE)
#define D (UC_NUMBER | UC_WORD)
#define U (UC_LETTER | UC_UPPER | UC_WORD)
#define L (UC_LETTER | UC_LOWER | UC_WORD)
#define P (UC_PUNCT | UC_DELIMITER)
#define Y (UC_SYMBOL | UC_DELIMITER) /* of ASCII */

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

bool unicode_is_recent(uint32_t cp)
{
    static const uint32_t ranges[][2] = {
        {0x61D, 0x61D}, {0x7FD, 0x7FD}, {0x898, 0x89F}, {0x8CA, 0x8D3}, {0x9FD, 0x9FE}, {0xA76, 0xA76}, {0xAFA, 0xAFF}, {0xB55, 0xB55},
        {0xC04, 0xC04}, {0xC3C, 0xC3C}, {0xC77, 0xC77}, {0xC84, 0xC84}, {0xD00, 0xD00}, {0xD3B, 0xD3C}, {0xD81, 0xD81}, {0xEBA, 0xEBA},
        {0x1715, 0x1715}, {0x180F, 0x180F}, {0x1ABF, 0x1ACE}, {0x1B7D, 0x1B7E}, {0x1CF7, 0x1CF7}, {0x1DF6, 0x1DFA}, {0x2E43, 0x2E4F},
        {0x2E52, 0x2E5D}, {0xA82C, 0xA82C}, {0xA8FF, 0xA8FF}, {0x10D24, 0x10D27}, {0x10EAB, 0x10EAD}, {0x10F46, 0x10F50}, {0x10F55, 0x10F59},
        {0x10F82, 0x10F89}, {0x11070, 0x11070}, {0x11073, 0x11074}, {0x110C2, 0x110C2}, {0x11145, 0x11146}, {0x111C9, 0x111C9}, {0x111CE, 0x111CF},
        {0x1133B, 0x1133B}, {0x1144B, 0x1144F}, {0x1145A, 0x1145E}, {0x11660, 0x1166C}, {0x116B9, 0x116B9}, {0x1182C, 0x1183B}, {0x11930, 0x1193E},
        {0x11940, 0x11940}, {0x11942, 0x11946}, {0x119D1, 0x119E0}, {0x119E2, 0x119E2}, {0x119E4, 0x119E4}, {0x11A01, 0x11A0A}, {0x11A33, 0x11A39},
        {0x11A3B, 0x11A47}, {0x11A51, 0x11A5B}, {0x11A8A, 0x11A9C}, {0x11A9E, 0x11AA2}, {0x11C41, 0x11C45}, {0x11C70, 0x11C71}, {0x11D31, 0x11D45},
        {0x11D47, 0x11D47}, {0x11D8A, 0x11D97}, {0x11EF3, 0x11EF8}, {0x11FFF, 0x11FFF}, {0x12FF1, 0x12FF2}, {0x16E97, 0x16E9A}, {0x16F4F, 0x16F4F},
        {0x16F7F, 0x16F87}, {0x16FE2, 0x16FE2}, {0x16FE4, 0x16FF1}, {0x1CF00, 0x1CF46}, {0x1E130, 0x1E136}, {0x1E2AE, 0x1E2AE}, {0x1E2EC, 0x1E2EF},
        {0x1E95E, 0x1E95F},
    };
    size_t low = 0, high = sizeof ranges / sizeof *ranges;

    while (low < high) {
        size_t middle = (low + high) / 2;
        if (cp > ranges[middle][1]) low = middle + 1;
        else high = middle;
    }
    return low < sizeof ranges / sizeof *ranges && cp >= ranges[low][0];
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
        [UTF8PROC_CATEGORY_SM] = UC_SYMBOL, [UTF8PROC_CATEGORY_SC] = UC_SYMBOL, [UTF8PROC_CATEGORY_SK] = UC_SYMBOL, [UTF8PROC_CATEGORY_SO] = UC_SYMBOL,
        [UTF8PROC_CATEGORY_CO] = 0,
    };

    if (cp < 128) return unicode_ascii[cp];
    bool word = (cp >= 0x24B6 && cp <= 0x24E9) || (cp >= 0x1F130 && cp <= 0x1F189) || cp == 0x200C || cp == 0x200D; /* letters in circles and boxes; joiners */
    if (cp >= 0x1F14A && cp <= 0x1F16F && !(cp >= 0x1F150 && cp <= 0x1F169)) word = false;
    unsigned category = of_category[utf8proc_category((utf8proc_int32_t)cp)];
    if (category & UC_DELIMITER ? unicode_is_recent(cp) : cp == 0x166D || cp == 0x111C9) category ^= UC_DELIMITER; /* the two have left the category since */
    return category | (is_space(cp) ? UC_SPACE : 0) | (word ? UC_WORD : 0);
}

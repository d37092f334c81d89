#include "train/cli/scaling_plot.h"

#include "ckpt/fileio.h"
#include "kernels/base/mem.h"

#define WIDTH 560
#define HEIGHT 380
#define LEFT 60
#define TOP 40
#define RIGHT 20
#define BOTTOM 50

/* Both axes go from 0 to the largest number of ranks over the first, so that the ideal is the diagonal. */
struct plot {
    double most;
};

static double place_x(const struct plot *p, double ranks)
{
    return LEFT + ranks / p->most * (WIDTH - LEFT - RIGHT);
}

static double place_y(const struct plot *p, double speedup)
{
    return HEIGHT - BOTTOM - speedup / p->most * (HEIGHT - TOP - BOTTOM);
}

enum pawl_status scaling_plot(const char *path, const struct scaling_result *list, size_t n, bool weak, struct err *err)
{
    struct plot p = {0};
    struct buf b = {0};
    enum pawl_status st;

    for (size_t i = 0; i < n; i++) {
        double ratio = (double)list[i].ranks / list[0].ranks;

        p.most = ratio > p.most ? ratio : p.most;
        p.most = list[i].speedup > p.most ? list[i].speedup : p.most;
    }
    buf_addf(&b, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" font-size=\"12\">\n", WIDTH, HEIGHT, WIDTH, HEIGHT);
    buf_addf(&b, "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n<text x=\"%d\" y=\"22\" font-size=\"14\">%s scaling: speed-up over %d rank%s (%.0f tokens/s)</text>\n", LEFT,
             weak ? "Weak" : "Strong", list[0].ranks, list[0].ranks > 1 ? "s" : "", list[0].tokens_per_second);
    buf_addf(&b, "<path d=\"M%d %d V%d H%d\" fill=\"none\" stroke=\"black\"/>\n", LEFT, TOP, HEIGHT - BOTTOM, WIDTH - RIGHT);
    buf_addf(&b, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#999\" stroke-dasharray=\"5 4\"/>\n", place_x(&p, 0), place_y(&p, 0), place_x(&p, p.most), place_y(&p, p.most));
    for (size_t i = 0; i < n; i++) {
        double ratio = (double)list[i].ranks / list[0].ranks, x = place_x(&p, ratio), y = place_y(&p, list[i].speedup);

        buf_addf(&b, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%d</text>\n", x, HEIGHT - BOTTOM + 18, list[i].ranks);
        if (i) {
            const struct scaling_result *before = &list[i - 1];

            buf_addf(&b, "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" stroke=\"#1668b8\" stroke-width=\"2\"/>\n", place_x(&p, (double)before->ranks / list[0].ranks),
                     place_y(&p, before->speedup), x, y);
        }
        buf_addf(&b, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\" fill=\"#1668b8\"/>\n<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">%.2fx, %.0f%% communication</text>\n", x, y, x - 6, y + 18, list[i].speedup,
                 100 * list[i].communication);
    }
    buf_addf(&b, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">ranks (dashed: ideal)</text>\n</svg>\n", (WIDTH + LEFT) / 2, HEIGHT - 12);
    st = file_replace(&fsys_real, path, b.data, b.len, err);
    buf_free(&b);
    return st;
}

#include "train/cli/scaling_plot.h"

#include "ckpt/fileio.h"
#include "kernels/base/mem.h"

#define WIDTH 850
#define WIDTH_PRICED 1000
#define LEFT 52
#define TOP 56
#define SIDE 290   /* of the square of the plot */
#define BOTTOM 56
#define TABLE 410  /* where the lines begin */
#define BAR 120
#define LINE 46
#define BLUE "#1668b8"
#define ORANGE "#d9731a"
#define GREY "#6b7280"

/* Both axes go from 0 to the most of units over the first's, so that the ideal is the diagonal. */
static double place(double ratio, double most)
{
    return ratio / most * SIDE;
}

/* A step of 1, 2 or 5 times a power of ten that divides the axis into at most six. */
static double tick(double most)
{
    double step = 0.1;

    for (int i = 0; most / step > 6; i++) step *= i % 3 == 1 ? 2.5 : 2;
    return step;
}

static void add_axes(struct buf *b, const struct scaling_result *first, double most)
{
    double units = scaling_units(first);
    int bottom = TOP + SIDE;

    for (double y = 0; y <= most * 1.0001; y += tick(most))
        buf_addf(b, "<path d=\"M%d %.1fh%d\" stroke=\"#e5e7eb\"/><text x=\"%d\" y=\"%.1f\" text-anchor=\"end\" fill=\"" GREY "\">%gx</text>\n", LEFT, bottom - place(y, most), SIDE, LEFT - 6,
                 bottom - place(y, most) + 4, y);
    buf_addf(b, "<path d=\"M%d %dV%dH%d\" fill=\"none\" stroke=\"#111827\"/>\n", LEFT, TOP, bottom, LEFT + SIDE);
    buf_addf(b, "<path d=\"M%d %dL%d %d\" stroke=\"" GREY "\" stroke-dasharray=\"5 4\"/><text x=\"%d\" y=\"%d\" text-anchor=\"end\" fill=\"" GREY "\">ideal</text>\n", LEFT, bottom, LEFT + SIDE, TOP,
             LEFT + SIDE - 30, TOP + 14);
    buf_addf(b, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">%s</text>\n", LEFT + SIDE / 2, bottom + 38, first->threads ? "cores: ranks x threads" : "ranks");
    buf_addf(b, "<text x=\"%d\" y=\"%d\" fill=\"" GREY "\">1x is %.0f tokens/s on %g %s%s</text>\n", LEFT, TOP - 10, first->tokens_per_second, units, first->threads ? "core" : "rank", units > 1 ? "s" : "");
}

/* The curve goes through the fastest of those with the same units. */
static void add_points(struct buf *b, const struct scaling_result *list, size_t n, double most)
{
    double units = scaling_units(&list[0]);
    int bottom = TOP + SIDE;

    for (size_t i = 0; i < n; i++) {
        double ratio = scaling_units(&list[i]) / units, x = LEFT + place(ratio, most);
        bool said = false;

        for (size_t j = 0; j < i; j++) said |= scaling_units(&list[j]) == scaling_units(&list[i]);
        if (!said) buf_addf(b, "<path d=\"M%.1f %dv5\" stroke=\"#111827\"/><text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\" fill=\"" GREY "\">%g</text>\n", x, bottom, x, bottom + 19, scaling_units(&list[i]));
        buf_addf(b, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"5\" fill=\"%s\" stroke=\"white\"><title>%s: %.2fx</title></circle>\n", x, bottom - place(list[i].speedup, most),
                 list[i].ranks > 1 ? BLUE : "#111827", list[i].name, list[i].speedup);
    }
}

static void add_curve(struct buf *b, const struct scaling_result *list, size_t n, double most)
{
    double units = scaling_units(&list[0]);

    buf_addf(b, "<polyline fill=\"none\" stroke=\"" BLUE "\" stroke-width=\"2\" points=\"");
    for (double at = 0;;) {
        const struct scaling_result *next = NULL;

        for (size_t i = 0; i < n; i++) {
            double u = scaling_units(&list[i]);

            if (u <= at || (next && u > scaling_units(next))) continue;
            if (!next || u < scaling_units(next) || list[i].speedup > next->speedup) next = &list[i];
        }
        if (!next) break;
        at = scaling_units(next);
        buf_addf(b, "%.1f,%.1f ", LEFT + place(at / units, most), TOP + SIDE - place(next->speedup, most));
    }
    buf_addf(b, "\"/>\n");
}

/* Efficiency as a bar whose end is what communication took. */
static void add_line(struct buf *b, const struct scaling_result *r, int y)
{
    double whole = r->efficiency < 1.25 ? r->efficiency : 1.25, talk = whole * r->communication;

    buf_addf(b, "<circle cx=\"%d\" cy=\"%d\" r=\"5\" fill=\"%s\"/><text x=\"%d\" y=\"%d\" font-weight=\"600\">%s</text>\n", TABLE + 5, y - 4, r->ranks > 1 ? BLUE : "#111827", TABLE + 16, y, r->name);
    buf_addf(b, "<rect x=\"%d\" y=\"%d\" width=\"%.1f\" height=\"12\" fill=\"" BLUE "\"/><rect x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"12\" fill=\"" ORANGE "\"/>\n", TABLE + 16, y + 7,
             (whole - talk) * BAR, TABLE + 16 + (whole - talk) * BAR, y + 7, talk * BAR);
    buf_addf(b, "<path d=\"M%d %dv16\" stroke=\"" GREY "\"/>\n", TABLE + 16 + BAR, y + 5);
    buf_addf(b, "<text x=\"%d\" y=\"%d\">%.0f tokens/s, %.2fx, %.0f%%</text>\n", TABLE + 180, y, r->tokens_per_second, r->speedup, 100 * r->efficiency);
    buf_addf(b, "<text x=\"%d\" y=\"%d\" fill=\"" GREY "\">%.1f%% communication, %.0f MiB a rank", TABLE + 180, y + 17, 100 * r->communication, r->peak / 1048576);
    if (r->cost > 0) buf_addf(b, ", %.4g a million tokens", r->cost);
    buf_addf(b, "</text>\n");
}

enum pawl_status scaling_plot(const char *path, const struct scaling_result *list, size_t n, const char *kind, struct err *err)
{
    int lines = TOP + 24 + (int)n * LINE + 20, height = TOP + SIDE + BOTTOM > lines ? TOP + SIDE + BOTTOM : lines, width = list[0].cost > 0 ? WIDTH_PRICED : WIDTH;
    double most = 1;
    struct buf b = {0};
    enum pawl_status st;

    for (size_t i = 0; i < n; i++) {
        double ratio = scaling_units(&list[i]) / scaling_units(&list[0]);

        most = ratio > most ? ratio : most;
        most = list[i].speedup > most ? list[i].speedup : most;
    }
    most *= 1.08;
    buf_addf(&b, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" font-size=\"12\">\n<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n", width,
             height, width, height);
    buf_addf(&b, "<text x=\"%d\" y=\"24\" font-size=\"15\" font-weight=\"600\">%s scaling: speed-up</text><text x=\"%d\" y=\"24\" font-size=\"15\" font-weight=\"600\">Efficiency</text>\n", LEFT, kind, TABLE);
    buf_addf(&b, "<text x=\"%d\" y=\"%d\" fill=\"" GREY "\"><tspan fill=\"" BLUE "\">&#9632;</tspan> work <tspan fill=\"" ORANGE "\">&#9632;</tspan> communication, waiting included; the line is 100%%</text>\n", TABLE, TOP - 10);
    add_axes(&b, &list[0], most);
    add_curve(&b, list, n, most);
    add_points(&b, list, n, most);
    for (size_t i = 0; i < n; i++) add_line(&b, &list[i], TOP + 24 + (int)i * LINE);
    buf_addf(&b, "</svg>\n");
    st = file_replace(&fsys_real, path, b.data, b.len, err);
    buf_free(&b);
    return st;
}

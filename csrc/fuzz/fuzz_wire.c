/* Batches of reports: any bytes are read alike by the library and by a plain twin, and what was written is read again. */
#include "fuzz.h"

static uint64_t part(const uint8_t *at, int count)
{
    uint64_t word = 0;
    for (int i = count - 1; i >= 0; i--) {
        word = word << 8 | at[i];
    }
    return word;
}

static double real(const uint8_t *at)
{
    const uint64_t bits = part(at, 8);
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* Bit by bit, over all bytes but those of the checksum itself. */
static uint32_t plain_crc(const uint8_t *bytes, int64_t n)
{
    uint32_t state = UINT32_MAX;
    for (int64_t i = 0; i < n; i++) {
        if (i >= 56 && i < 60) {
            continue;
        }
        state ^= bytes[i];
        for (int bit = 0; bit < 8; bit++) {
            state = state >> 1 ^ (state & 1 ? 0xedb88320u : 0);
        }
    }
    return ~state;
}

static int within(double value, double low, double high)
{
    return value >= low && value <= high;
}

static int32_t plain_status(const uint8_t *bytes, int64_t n)
{
    if (n < 64 || memcmp(bytes, "FPPL", 4) != 0) {
        return FPP_ERR_FOREIGN;
    }
    if (part(bytes + 4, 2) != 1) {
        return FPP_ERR_VERSION;
    }
    const uint64_t dim = part(bytes + 12, 4), count = part(bytes + 16, 8);
    const int seeds = bytes[7] == 1, coded = seeds || bytes[7] == 2;
    const int known = bytes[6] < 2 && bytes[7] < 3 && bytes[8] < 2 && bytes[9] <= FPP_REPORT_GRID_MAX && bytes[11] == 0
                      && (coded ? bytes[10] == 0 : bytes[10] == 2 || bytes[10] == 4);
    const int sizes = dim >= 1 && dim <= FPP_DIM_MAX && count <= FPP_REPORTS_MAX;
    const int numbers = within(real(bytes + 24), 0.0, 1e3) && within(real(bytes + 32), -1e4, 1e4)
                        && within(real(bytes + 40), 1e-300, 1e300) && within(real(bytes + 48), 0.0, PLANTED ? 1.0 : 1e4);
    if (!known || !sizes || !numbers || part(bytes + 60, 4) != 0) {
        return FPP_ERR_FOREIGN;
    }
    const uint64_t size = 64 + count * (seeds ? 32 : coded ? 10 : dim * bytes[10]);
    return size <= (uint64_t)n && part(bytes + 56, 4) == plain_crc(bytes, (int64_t)size) ? FPP_OK : FPP_ERR_FOREIGN;
}

static void check_bytes(const uint8_t *bytes, int64_t n)
{
    fpp_report_header header;
    const int32_t status = fpp_report_batch_read(bytes, n, &header);
    AGREE(status == plain_status(bytes, n));
    if (status != FPP_OK) {
        AGREE(fpp_report_batch_entries(bytes, n, NULL, NULL) == status);
        return;
    }
    const int64_t size = fpp_report_batch_size(&header), each = header.form == FPP_REPORT_SEEDS ? 32 : header.form == FPP_REPORT_CODES ? 10 : header.dim;
    int32_t *entries = room(header.count * each, sizeof *entries);
    uint8_t *seeds = room(header.count * each, 1), *again = room(size, 1);
    AGREE(fpp_report_batch_entries(bytes, n, entries, seeds) == FPP_OK);
    AGREE(fpp_report_batch_write(&header, entries, seeds, again) == FPP_OK);
    /* The least entry of its bytes is the one that is never written. */
    int least = 0;
    for (int64_t i = 0; header.form == FPP_REPORT_DIRECT && i < header.count * each; i++) {
        least |= entries[i] == (header.entry_bytes == 2 ? -32768 : INT32_MIN);
    }
    AGREE(least || memcmp(again, bytes, (size_t)size) == 0);
    free(entries);
    free(seeds);
    free(again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    fuzz_input in = {data, size};
    const int64_t kind = pick(&in, 0, 3);
    const int64_t n = (int64_t)in.left;
    uint8_t *bytes = room(n, 1);
    memcpy(bytes, in.at, in.left);
    if (kind > 0 && n >= 64) { /* as a sender that knows the format would lie */
        memcpy(bytes, "FPPL\1", 6);
        if (kind > 1) {
            memset(bytes + 60, 0, 4);
            memset(bytes + 14, 0, 2); /* small sizes, so that batches are whole */
            memset(bytes + 17, 0, 7);
            const int64_t whole = 64 + bytes[16] * (int64_t)(bytes[7] == 1 ? 32 : bytes[7] == 2 ? 10 : part(bytes + 12, 4) * bytes[10]);
            const uint32_t sum = plain_crc(bytes, whole <= n ? whole : n);
            for (int i = 0; i < 4; i++) {
                bytes[56 + i] = (uint8_t)(sum >> (8 * i));
            }
        }
    }
    check_bytes(bytes, n);
    free(bytes);
    return 0;
}

/* Batches of reports as bytes, the same on every machine: a header of 64 bytes and the entries, all least byte first.
 *
 *  0 "FPPL"          8 ball, 0 or 1           16 count (8)             48 epsilon (double)
 *  4 version (2)     9 log2_grid              24 threshold (double)    56 CRC-32 of all bytes but these four (4)
 *  6 kind           10 entry_bytes            32 logit (double)        60 zero (4)
 *  7 form           11 zero; 12 dim (4)       40 radius (double)       64 entries: count x dim signed integers, or count x 32 bytes
 *                                                                          (seeds), or count x 10 bytes (codes: book 8, word 2)
 *
 * Nothing in a header depends on a row. A reader compares it with the randomizer that it expects; it never computes with it.
 */
#include "internal.h"

#include <math.h>
#include <string.h>

#define FPP_REPORT_VERSION 1

static void put(uint8_t *at, uint64_t value, int bytes)
{
    for (int i = 0; i < bytes; i++) {
        at[i] = (uint8_t)(value >> (8 * i));
    }
}

static uint64_t get(const uint8_t *at, int bytes)
{
    uint64_t value = 0;
    for (int i = 0; i < bytes; i++) {
        value |= (uint64_t)at[i] << (8 * i);
    }
    return value;
}

static void put_double(uint8_t *at, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    put(at, bits, 8);
}

static double get_double(const uint8_t *at)
{
    const uint64_t bits = get(at, 8);
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* CRC-32 (IEEE 802.3), four bits at a time. */
static uint32_t crc(uint32_t state, const uint8_t *bytes, int64_t n)
{
    static const uint32_t table[16] = {0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4, 0x4db26158, 0x5005713c,
                                       0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c, 0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c};
    for (int64_t i = 0; i < n; i++) {
        state ^= bytes[i];
        state = state >> 4 ^ table[state & 15];
        state = state >> 4 ^ table[state & 15];
    }
    return state;
}

static uint32_t crc_of(const uint8_t *bytes, int64_t size)
{
    uint32_t state = crc(UINT32_MAX, bytes, 56);
    state = crc(state, bytes + 60, size - 60);
    return ~state;
}

static int32_t in_range(double value, double low, double high)
{
    return value >= low && value <= high;
}

/* Bytes of a seed, or of a code. */
static int64_t bytes_of(const fpp_report_header *header)
{
    return header->form == FPP_REPORT_SEEDS ? FPP_SEED_BYTES : FPP_CODE_BYTES;
}

FPP_API int64_t fpp_report_batch_size(const fpp_report_header *header)
{
    if (header == NULL || header->dim < 1 || header->dim > FPP_DIM_MAX || header->count < 0
        || header->count > FPP_REPORTS_MAX || (header->kind != FPP_REPORT_SPHERE && header->kind != FPP_REPORT_GAUSSIAN)
        || (header->ball != 0 && header->ball != 1) || header->log2_grid < 0 || header->log2_grid > FPP_REPORT_GRID_MAX
        || !in_range(header->threshold, 0.0, 1e3) || !in_range(header->logit, -1e4, 1e4) || !in_range(header->radius, 1e-300, 1e300)
        || !in_range(header->epsilon, 0.0, 1e4)) {
        return -1;
    }
    const int32_t direct = header->form == FPP_REPORT_DIRECT;
    if (direct ? header->entry_bytes != 2 && header->entry_bytes != 4
               : header->entry_bytes != 0 || (header->form != FPP_REPORT_SEEDS && header->form != FPP_REPORT_CODES)) {
        return -1;
    }
    const int64_t each = direct ? header->dim * header->entry_bytes : bytes_of(header);
    return header->count > (INT64_MAX - FPP_REPORT_HEADER_BYTES) / each ? -1 : FPP_REPORT_HEADER_BYTES + header->count * each;
}

FPP_API int32_t fpp_report_batch_write(const fpp_report_header *header, const int32_t *entries, const uint8_t *seeds, uint8_t *bytes)
{
    const int64_t size = fpp_report_batch_size(header);
    if (size < 0 || bytes == NULL) {
        return FPP_ERR_ARGUMENT;
    }
    const int32_t direct = header->form == FPP_REPORT_DIRECT;
    const int64_t n = direct ? header->count * header->dim : header->count * bytes_of(header);
    if (n > 0 && (direct ? (const void *)entries : (const void *)seeds) == NULL) {
        return FPP_ERR_ARGUMENT;
    }
    memset(bytes, 0, FPP_REPORT_HEADER_BYTES);
    memcpy(bytes, "FPPL", 4);
    put(bytes + 4, FPP_REPORT_VERSION, 2);
    bytes[6] = (uint8_t)header->kind;
    bytes[7] = (uint8_t)header->form;
    bytes[8] = (uint8_t)header->ball;
    bytes[9] = (uint8_t)header->log2_grid;
    bytes[10] = (uint8_t)header->entry_bytes;
    put(bytes + 12, (uint64_t)header->dim, 4);
    put(bytes + 16, (uint64_t)header->count, 8);
    put_double(bytes + 24, header->threshold);
    put_double(bytes + 32, header->logit);
    put_double(bytes + 40, header->radius);
    put_double(bytes + 48, header->epsilon);
    uint8_t *const body = bytes + FPP_REPORT_HEADER_BYTES;
    if (direct) {
        const int32_t most = header->entry_bytes == 2 ? 32767 : 2147483647;
        for (int64_t i = 0; i < n; i++) {
            const int32_t entry = entries[i] > most ? most : entries[i] < -most ? -most : entries[i];
            put(body + i * header->entry_bytes, (uint64_t)(int64_t)entry, header->entry_bytes);
        }
    } else if (n > 0) {
        memcpy(body, seeds, (size_t)n);
    }
    put(bytes + 56, crc_of(bytes, size), 4);
    return FPP_OK;
}

FPP_API int32_t fpp_report_batch_read(const uint8_t *bytes, int64_t n_bytes, fpp_report_header *header)
{
    if (header == NULL || !fpp_is_given(bytes, n_bytes, 1)) {
        return FPP_ERR_ARGUMENT;
    }
    if (n_bytes < FPP_REPORT_HEADER_BYTES || memcmp(bytes, "FPPL", 4) != 0) {
        return FPP_ERR_FOREIGN;
    }
    if (get(bytes + 4, 2) != FPP_REPORT_VERSION) {
        return FPP_ERR_VERSION;
    }
    const fpp_report_header found = {
        .dim = (int64_t)get(bytes + 12, 4),
        .count = get(bytes + 16, 8) > INT64_MAX ? -1 : (int64_t)get(bytes + 16, 8),
        .kind = bytes[6],
        .form = bytes[7],
        .ball = bytes[8],
        .log2_grid = bytes[9],
        .entry_bytes = bytes[10],
        .threshold = get_double(bytes + 24),
        .logit = get_double(bytes + 32),
        .radius = get_double(bytes + 40),
        .epsilon = get_double(bytes + 48),
    };
    const int64_t size = fpp_report_batch_size(&found);
    if (size < 0 || size > n_bytes || bytes[11] != 0 || get(bytes + 60, 4) != 0 || get(bytes + 56, 4) != crc_of(bytes, size)) {
        return FPP_ERR_FOREIGN;
    }
    *header = found;
    return FPP_OK;
}

FPP_API int32_t fpp_report_batch_entries(const uint8_t *bytes, int64_t n_bytes, int32_t *entries, uint8_t *seeds)
{
    fpp_report_header header;
    const int32_t status = fpp_report_batch_read(bytes, n_bytes, &header);
    if (status != FPP_OK) {
        return status;
    }
    const uint8_t *const body = bytes + FPP_REPORT_HEADER_BYTES;
    const int32_t direct = header.form == FPP_REPORT_DIRECT;
    const int64_t n = direct ? header.count * header.dim : header.count * bytes_of(&header);
    if (n > 0 && (direct ? (void *)entries : (void *)seeds) == NULL) {
        return FPP_ERR_ARGUMENT;
    }
    if (!direct && n > 0) {
        memcpy(seeds, body, (size_t)n);
    }
    for (int64_t i = 0; direct && i < n; i++) {
        const uint64_t word = get(body + i * header.entry_bytes, header.entry_bytes);
        entries[i] = header.entry_bytes == 2 ? (int32_t)(int16_t)(uint16_t)word : (int32_t)(uint32_t)word;
    }
    return FPP_OK;
}

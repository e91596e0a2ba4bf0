/* The main function of a fuzz program where libFuzzer is missing: one run for each file named on the command line. */
#include "fuzz.h"

int main(int count, char **names)
{
    static uint8_t data[1 << 16];
    for (int i = 1; i < count; i++) {
        FILE *file = fopen(names[i], "rb");
        if (file == NULL) {
            fprintf(stderr, "cannot read %s\n", names[i]);
            return 2;
        }
        const size_t size = fread(data, 1, sizeof data, file);
        fclose(file);
        LLVMFuzzerTestOneInput(data, size);
    }
    printf("%d inputs agree\n", count - 1);
    return count < 2; /* a corpus that was not found is not a success */
}

// Counts the words of standard input. As a program for WASI it is a tool as it is: its arguments
// are `args` and `stdin`, its standard output is the result.
#include <ctype.h>
#include <stdio.h>

int main(void) {
    unsigned long words = 0;
    int inside = 0;
    for (int c; (c = getchar()) != EOF; inside = !isspace(c))
        words += !isspace(c) && !inside;
    printf("%lu\n", words);
    return 0;
}

/* Loads a library, as programs load a PKCS#11 module, and calls its fault. It is not compiled with the sanitizer. */
#include <dlfcn.h>
#include <stdio.h>

int main(int count, char **arguments) {
    void *library = count == 2 ? dlopen(arguments[1], RTLD_NOW) : NULL;
    if (library == NULL) {
        fprintf(stderr, "%s\n", count == 2 ? dlerror() : "expected a library");
        return 2;
    }
    int (*fault)(void) = (int (*)(void))dlsym(library, "fault");
    return fault == NULL ? 2 : fault() & 1;
}

/* A PKCS#11 module that forwards to MODULE, and fails as the word in the file CONTROL says. It counts logins in LOGINS.
 * The list of functions is a version and then pointers, in the order of the standard. */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef unsigned long rv;
enum { COUNT = 68, OPEN_SESSION = 12, LOGIN = 18, SIGN = 43 };
struct list {
    unsigned char version[2];
    void *functions[COUNT];
};

static struct list ours;
static struct list *theirs;

static int is(const char *word) {
    char text[32] = {0};
    int file = open(CONTROL, O_RDONLY | O_CLOEXEC);
    if (file < 0) return 0;
    ssize_t len = read(file, text, sizeof text - 1);
    close(file);
    return len > 0 && !strcmp(text, word);
}

static rv open_session(unsigned long slot, unsigned long flags, void *data, void *notify, unsigned long *session) {
    if (is("sessions")) return 0xb1; /* CKR_SESSION_COUNT */
    return ((rv(*)(unsigned long, unsigned long, void *, void *, unsigned long *))theirs->functions[OPEN_SESSION])(
        slot, flags, data, notify, session);
}

static rv login(unsigned long session, unsigned long user, void *pin, unsigned long len) {
    int file = open(LOGINS, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (file >= 0) {
        ssize_t written = write(file, "x", 1);
        (void)written;
        close(file);
    }
    if (is("locked")) return 0xa4; /* CKR_PIN_LOCKED */
    if (is("login")) return 0x06; /* CKR_FUNCTION_FAILED */
    return ((rv(*)(unsigned long, unsigned long, void *, unsigned long))theirs->functions[LOGIN])(session, user, pin, len);
}

static rv sign(unsigned long session, void *input, unsigned long len, void *output, unsigned long *output_len) {
    if (is("slow")) sleep(600);
    if (is("late")) usleep(400000);
    if (is("crash")) abort();
    if (is("device")) return 0x30; /* CKR_DEVICE_ERROR */
    return ((rv(*)(unsigned long, void *, unsigned long, void *, unsigned long *))theirs->functions[SIGN])(
        session, input, len, output, output_len);
}

rv C_GetFunctionList(struct list **list) {
    void *library = dlopen(MODULE, RTLD_NOW | RTLD_LOCAL);
    rv (*get)(struct list **) = library ? (rv(*)(struct list **))dlsym(library, "C_GetFunctionList") : 0;
    if (!get) return 5; /* CKR_GENERAL_ERROR */
    rv done = get(&theirs);
    if (done) return done;
    ours = *theirs;
    ours.functions[OPEN_SESSION] = open_session;
    ours.functions[LOGIN] = login;
    ours.functions[SIGN] = sign;
    *list = &ours;
    return 0;
}

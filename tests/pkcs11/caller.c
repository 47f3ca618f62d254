/* A program that calls the module as C programs do: without Rust's handling of SIGPIPE, with threads and with fork.
 * `caller MODULE` runs the checks of the interface. Then it does what each line of its input says, and answers with a line. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef unsigned long ck;
struct mechanism { ck type; void *parameter; ck len; };
struct attribute { ck type; void *value; ck len; };
struct list { unsigned char version[2]; ck (*f[68])(); };
enum { INITIALIZE = 0, FINALIZE = 1, GET_INFO = 2, SLOTS = 4, SLOT_INFO = 5, TOKEN_INFO = 6, OPEN = 12, CLOSE = 13, LOGIN = 18, CREATE = 20,
       GET = 24, FIND_INIT = 26, FIND = 27, FIND_FINAL = 28, SIGN_INIT = 42, SIGN = 43, SIGN_UPDATE = 44, SIGN_FINAL = 45,
       VERIFY_INIT = 48, VERIFY = 49, SEED = 63 };
enum { OK = 0, SLOT_ID_INVALID = 3, ARGUMENTS_BAD = 7, SENSITIVE = 0x11, DEVICE_ERROR = 0x30, DATA_LEN_RANGE = 0x21,
       NOT_SUPPORTED = 0x54, MECHANISM_INVALID = 0x70, OPERATION_ACTIVE = 0x90, NO_OPERATION = 0x91, SIGNATURE_INVALID = 0xc0,
       SESSION_INVALID = 0xb3, NOT_PARALLEL = 0xb4, SEED_NOT_SUPPORTED = 0x120, TOO_SMALL = 0x150, NOT_INITIALIZED = 0x190, ALREADY = 0x191 };
enum { ECDSA = 0x1041, ECDSA_SHA256 = 0x1044, SERIAL = 4 };

static struct list *p11;
static int wrong;

#define CALL(name, ...) p11->f[name](__VA_ARGS__)
#define EXPECT(wanted, ...) expect(__LINE__, wanted, __VA_ARGS__)

static void expect(int line, ck wanted, ck found) {
    if (wanted != found) {
        printf("line %d: expected 0x%lx, got 0x%lx\n", line, wanted, found);
        wrong = 1;
    }
}

static ck find(ck session, ck class) {
    ck found = 0, count = 0;
    struct attribute wanted[] = {{0, &class, sizeof class}, {0x102, "ec", 2}};
    EXPECT(OK, CALL(FIND_INIT, session, wanted, 2UL));
    EXPECT(OK, CALL(FIND, session, &found, 1UL, &count));
    EXPECT(OK, CALL(FIND_FINAL, session));
    EXPECT(1, count);
    return found;
}

static void checks(void) {
    ck session = 0, count = 0, len = 0, slots[16];
    unsigned char buffer[512], digest[32] = {7};
    struct mechanism raw = {ECDSA, NULL, 0}, whole = {ECDSA_SHA256, NULL, 0}, unknown = {1, NULL, 0};
    EXPECT(NOT_INITIALIZED, CALL(GET_INFO, buffer));
    EXPECT(ARGUMENTS_BAD, CALL(FINALIZE, buffer));
    EXPECT(OK, CALL(INITIALIZE, NULL));
    EXPECT(ALREADY, CALL(INITIALIZE, NULL));
    EXPECT(ARGUMENTS_BAD, CALL(GET_INFO, NULL));
    EXPECT(OK, CALL(GET_INFO, buffer));
    EXPECT(ARGUMENTS_BAD, CALL(SLOTS, 1, NULL, NULL));
    EXPECT(OK, CALL(SLOTS, 1, NULL, &count));
    EXPECT(7, count);
    count = 6;
    EXPECT(TOO_SMALL, CALL(SLOTS, 1, slots, &count));
    EXPECT(7, count);
    EXPECT(OK, CALL(SLOTS, 1, slots, &count));
    EXPECT(SLOT_ID_INVALID, CALL(TOKEN_INFO, 7UL, buffer));
    EXPECT(SLOT_ID_INVALID, CALL(TOKEN_INFO, -1UL, buffer));
    EXPECT(NOT_PARALLEL, CALL(OPEN, 0UL, 0UL, NULL, NULL, &session));
    EXPECT(ARGUMENTS_BAD, CALL(OPEN, 0UL, (ck)SERIAL, NULL, NULL, NULL));
    EXPECT(OK, CALL(OPEN, 0UL, (ck)SERIAL, NULL, NULL, &session));
    EXPECT(OK, CALL(LOGIN, session, 1UL, "1234", 4UL));
    EXPECT(NOT_SUPPORTED, CALL(CREATE, session, NULL, 0UL, NULL));
    EXPECT(SEED_NOT_SUPPORTED, CALL(SEED, session, buffer, 1UL));
    EXPECT(SESSION_INVALID, CALL(FIND_INIT, session + 9, NULL, 0UL));
    EXPECT(ARGUMENTS_BAD, CALL(FIND_INIT, session, NULL, 1UL));
    EXPECT(NO_OPERATION, CALL(FIND, session, &len, 1UL, &count));
    ck private = find(session, 3), public = find(session, 2);

    struct attribute value = {0x11, buffer, sizeof buffer}, point = {0x181, NULL, 0};
    EXPECT(SENSITIVE, CALL(GET, session, private, &value, 1UL));
    EXPECT(-1UL, value.len);
    EXPECT(OK, CALL(GET, session, public, &point, 1UL));
    EXPECT(67, point.len);
    point = (struct attribute){0x181, buffer, 66};
    EXPECT(TOO_SMALL, CALL(GET, session, public, &point, 1UL));
    EXPECT(-1UL, point.len);

    EXPECT(ARGUMENTS_BAD, CALL(SIGN_INIT, session, NULL, private));
    EXPECT(MECHANISM_INVALID, CALL(SIGN_INIT, session, &unknown, private));
    EXPECT(NO_OPERATION, CALL(SIGN, session, digest, 32UL, buffer, &len));
    EXPECT(OK, CALL(SIGN_INIT, session, &raw, private));
    EXPECT(OPERATION_ACTIVE, CALL(SIGN_INIT, session, &raw, private));
    EXPECT(OK, CALL(SIGN, session, digest, 32UL, NULL, &len));
    EXPECT(64, len);
    len = 63;
    EXPECT(TOO_SMALL, CALL(SIGN, session, digest, 32UL, buffer, &len));
    EXPECT(64, len);
    EXPECT(ARGUMENTS_BAD, CALL(SIGN, session, NULL, 32UL, buffer, &len));
    EXPECT(OK, CALL(SIGN, session, digest, 32UL, buffer, &len));
    EXPECT(NO_OPERATION, CALL(SIGN, session, digest, 32UL, buffer, &len));
    EXPECT(OK, CALL(VERIFY_INIT, session, &raw, public));
    EXPECT(OK, CALL(VERIFY, session, digest, 32UL, buffer, 64UL));
    EXPECT(OK, CALL(VERIFY_INIT, session, &raw, public));
    buffer[9] ^= 1;
    EXPECT(SIGNATURE_INVALID, CALL(VERIFY, session, digest, 32UL, buffer, 64UL));
    EXPECT(OK, CALL(SIGN_INIT, session, &raw, private));
    EXPECT(DATA_LEN_RANGE, CALL(SIGN, session, digest, 31UL, buffer, &len));
    /* In parts, and the same at once. */
    EXPECT(OK, CALL(SIGN_INIT, session, &whole, private));
    EXPECT(OK, CALL(SIGN_UPDATE, session, "ab", 2UL));
    EXPECT(OPERATION_ACTIVE, CALL(SIGN, session, "ab", 2UL, buffer, &len));
    EXPECT(OK, CALL(SIGN_UPDATE, session, "c", 1UL));
    EXPECT(OK, CALL(SIGN_FINAL, session, NULL, &len));
    EXPECT(OK, CALL(SIGN_FINAL, session, buffer, &len));
    EXPECT(OK, CALL(VERIFY_INIT, session, &whole, public));
    EXPECT(OK, CALL(VERIFY, session, "abc", 3UL, buffer, 64UL));
    EXPECT(OK, CALL(CLOSE, session));
    EXPECT(SESSION_INVALID, CALL(CLOSE, session));
    EXPECT(OK, CALL(FINALIZE, NULL));
    EXPECT(NOT_INITIALIZED, CALL(FINALIZE, NULL));
}

/* Signs and verifies in a session of its own; returns the first value that is not OK. */
static ck sign_once(void) {
    ck session = 0, found = 0, public = 0, count = 0, len = 64, class = 3;
    unsigned char digest[32] = {9}, signature[64];
    struct mechanism raw = {ECDSA, NULL, 0};
    struct attribute wanted[] = {{0, &class, sizeof class}, {0x102, "ec", 2}};
    ck value = CALL(OPEN, 0UL, (ck)SERIAL, NULL, NULL, &session);
    if (value) return value;
    if (!(value = CALL(FIND_INIT, session, wanted, 2UL))) {
        CALL(FIND, session, &found, 1UL, &count);
        CALL(FIND_FINAL, session);
        class = 2;
        if (!(value = CALL(FIND_INIT, session, wanted, 2UL))) {
            CALL(FIND, session, &public, 1UL, &count);
            CALL(FIND_FINAL, session);
        }
    }
    if (!value) value = CALL(SIGN_INIT, session, &raw, found);
    if (!value) value = CALL(SIGN, session, digest, 32UL, signature, &len);
    if (!value) value = CALL(VERIFY_INIT, session, &raw, public);
    if (!value) value = CALL(VERIFY, session, digest, 32UL, signature, 64UL);
    CALL(CLOSE, session);
    return value;
}

static void *thread(void *unused) {
    for (int turn = 0; turn < 10; turn++) {
        ck value = sign_once();
        if (value) return (void *)value;
    }
    return unused;
}

int main(int argc, char **argv) {
    void *module = argc == 2 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    ck (*get)(struct list **) = module ? (ck(*)(struct list **))dlsym(module, "C_GetFunctionList") : NULL;
    if (!get || get(NULL) != ARGUMENTS_BAD || get(&p11)) {
        printf("no module: %s\n", dlerror());
        return 2;
    }
    checks();
    if (wrong) return 1;
    printf("checked\n");
    fflush(stdout);
    char line[64];
    if (CALL(INITIALIZE, NULL)) return 3;
    while (fgets(line, sizeof line, stdin)) {
        ck value = 0;
        if (!strcmp(line, "sign\n")) {
            value = sign_once();
        } else if (!strcmp(line, "threads\n")) {
            pthread_t threads[8];
            for (int i = 0; i < 8; i++) pthread_create(&threads[i], NULL, thread, NULL);
            for (int i = 0; i < 8; i++) {
                void *result;
                pthread_join(threads[i], &result);
                if (result) value = (ck)result;
            }
        } else if (!strcmp(line, "fork\n")) {
            /* The child must initialise again; the parent's connection still works after the child's end. */
            int status = 0;
            pid_t child = fork();
            if (child == 0) {
                if (sign_once() != NOT_INITIALIZED || CALL(FINALIZE, NULL) != NOT_INITIALIZED) _exit(1);
                if (CALL(INITIALIZE, NULL)) _exit(2);
                _exit(sign_once() ? 3 : CALL(FINALIZE, NULL) ? 4 : 0);
            }
            waitpid(child, &status, 0);
            value = status ? (ck)status : sign_once();
        }
        printf("%lx\n", value);
        fflush(stdout);
    }
    return 0;
}

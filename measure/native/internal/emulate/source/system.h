// device.h and hopper.h include these system headers, which compiler.cc precompiles.
#include <dlfcn.h>
#include <link.h>
#include <sched.h>
#include <sys/mman.h>
#include <time.h>

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

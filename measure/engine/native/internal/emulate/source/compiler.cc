// NVRTC's functions over the host's C++ compiler: a program's text with ptx.cuh
// and hopper.cuh replaced by device.h and hopper.h becomes a shared library.
#include <dlfcn.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <set>
#include <string>

namespace {

struct Program {
  std::string source, log, code;
};

std::string folder() {
  Dl_info info;
  dladdr((void *)&folder, &info);
  std::string path = info.dli_fname;
  return path.substr(0, path.rfind('/'));
}

std::string read(const std::string &path) {
  std::string out;
  if (FILE *f = fopen(path.c_str(), "rb")) {
    char buf[65536];
    for (size_t n; (n = fread(buf, 1, sizeof buf, f)) > 0;) out.append(buf, n);
    fclose(f);
  }
  return out;
}

bool write(const std::string &path, const std::string &text) {
  FILE *f = fopen(path.c_str(), "wb");
  if (!f) return false;
  bool whole = fwrite(text.data(), 1, text.size(), f) == text.size();
  return fclose(f) == 0 && whole;
}

// without cuts the part of the program that is one file.
std::string without(const std::string &s, const std::string &file) {
  const std::string line = "#line 1 \"";
  size_t begin = s.find(line + file + "\"");
  if (begin == std::string::npos) return s;
  size_t end = s.find(line, begin + line.size());
  return s.substr(0, begin) + (end == std::string::npos ? "" : s.substr(end));
}

// entries finds the kernels of a program that the preprocessor has read.
std::string entries(const std::string &s) {
  const std::string mark = "EMULATED_KERNEL";
  std::set<std::string> names;
  for (size_t at = s.find(mark); at != std::string::npos; at = s.find(mark, at)) {
    size_t open = s.find('(', at += mark.size()), end = open;
    while (end > at && isspace(s[end - 1])) end--;
    size_t begin = end;
    while (begin > at && (isalnum(s[begin - 1]) || s[begin - 1] == '_')) begin--;
    names.insert(s.substr(begin, end - begin));
  }
  std::string out;
  for (auto &n : names) out += "\nEMULATED_ENTRY(" + n + ")";
  return out + "\n";
}

std::string quoted(const std::string &s) {
  std::string out = "'";
  for (char c : s) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

} // namespace

extern "C" {

const char *nvrtcGetErrorString(int code) { return code == 6 ? "NVRTC_ERROR_COMPILATION" : "NVRTC_ERROR_EMULATED"; }
int nvrtcVersion(int *major, int *minor) { return *major = 0, *minor = EMULATED_VERSION, 0; }
int nvrtcCreateProgram(Program **p, const char *source, const char *, int, void *, void *) { return *p = new Program{source, "", ""}, 0; }
int nvrtcDestroyProgram(Program **p) { return delete *p, 0; }

int nvrtcCompileProgram(Program *p, int n, const char **options) {
  const char *tmp = getenv("TMPDIR"), *cxx = getenv("CXX");
  std::string dir = std::string(tmp ? tmp : "/tmp") + "/emulated-XXXXXX";
  if (!mkdtemp(&dir[0])) return 7;
  std::string flags = std::string(cxx ? cxx : "g++") + " -std=c++17 -w -I" + quoted(folder()) + " -include device.h -include hopper.h";
  for (int i = 0; i < n; i++)
    if (strncmp(options[i], "-D", 2) == 0) flags += " " + quoted(options[i]);
  std::string source = without(without(p->source, "ptx.cuh"), "hopper.cuh"), in = dir + "/kernels.cc", read_in = dir + "/kernels.ii", out = dir + "/kernels.so", log = dir + "/log";
  // Nothing but entries is seen from outside: the loader would take the shared
  // memory of templates from another module that is loaded, and lose it with that.
  std::string first = flags + " -E -P " + in + " -o " + read_in + " 2>" + log;
  std::string second = flags + " -O2 -fvisibility=hidden -ftree-vectorize -fPIC -shared -fno-strict-aliasing -fno-stack-protector -fno-exceptions -U_FORTIFY_SOURCE -DEMULATED_KERNEL= " + in +
                       " -o " + out + " 2>" + log;
  bool done = write(in, source) && system(first.c_str()) == 0 && write(in, source + entries(read(read_in))) && system(second.c_str()) == 0;
  p->log = read(log);
  std::string library = read(out);
  uint64_t size = library.size();
  p->code = "EMULATED" + std::string((const char *)&size, 8) + library;
  for (auto &f : {in, read_in, out, log}) unlink(f.c_str());
  rmdir(dir.c_str());
  return done ? 0 : 6;
}

int nvrtcGetProgramLogSize(Program *p, uint64_t *n) { return *n = p->log.size() + 1, 0; }
int nvrtcGetProgramLog(Program *p, char *s) { return memcpy(s, p->log.c_str(), p->log.size() + 1), 0; }
int nvrtcGetCUBINSize(Program *p, uint64_t *n) { return *n = p->code.size(), 0; }
int nvrtcGetCUBIN(Program *p, char *s) { return memcpy(s, p->code.data(), p->code.size()), 0; }

} // extern "C"

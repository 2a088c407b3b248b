// The files that were dropped on the page, as the file system that the Go program sees:
// it reads them by the calls by which the command line reads files.
const blobs = new Map(), contents = new Map(), sizes = new Map();

// put adds a file. Of a large one it may be the beginning only; size is that of the whole.
export function put(path, blob, size) {
  const name = clean(path);
  blobs.set(name, blob);
  sizes.set(name, size);
  contents.delete(name);
}

// read is the bytes of a file, which are copied to this worker once they are asked for.
function read(name) {
  if (!contents.has(name)) contents.set(name, new Uint8Array(new FileReaderSync().readAsArrayBuffer(blobs.get(name))));
  return contents.get(name);
}

const clean = (path) => path.replace(/^(\.\/|\/)+/, "");
const open = new Map();
let next = 100;

function failure(code) { const e = new Error(code); e.code = code; return e; }

function about(path) {
  const file = blobs.has(path), folder = path === "" || path === "." || [...blobs.keys()].some((k) => k.startsWith(path + "/"));
  if (!file && !folder) return null;
  const mode = file ? 0o100444 : 0o040555;
  return {
    dev: 1, ino: 1, mode, nlink: 1, uid: 0, gid: 0, rdev: 0, size: sizes.get(path) ?? 0, blksize: 4096, blocks: 0,
    atimeMs: 0, mtimeMs: 0, ctimeMs: 0, isDirectory: () => !file,
  };
}

const decoder = new TextDecoder();
let line = "";

globalThis.fs = {
  constants: { O_WRONLY: 1, O_RDWR: 2, O_CREAT: 64, O_TRUNC: 512, O_APPEND: 1024, O_EXCL: 128, O_DIRECTORY: 65536 },
  writeSync(fd, bytes) {
    line += decoder.decode(bytes);
    const end = line.lastIndexOf("\n");
    if (end >= 0) { console.warn(line.slice(0, end)); line = line.slice(end + 1); }
    return bytes.length;
  },
  write(fd, bytes, offset, length, position, done) { done(null, this.writeSync(fd, bytes.subarray(offset, offset + length))); },
  open(path, flags, mode, done) {
    const name = clean(path);
    if (flags & 3) return done(failure("EROFS"));
    if (!about(name)) return done(failure("ENOENT"));
    open.set(next, { name, at: 0 });
    done(null, next++);
  },
  read(fd, buffer, offset, length, position, done) {
    const f = open.get(fd);
    if (!blobs.has(f?.name)) return done(failure("EBADF"));
    let bytes;
    try { bytes = read(f.name); } catch { return done(failure("EIO")); } // the file was changed or removed since
    const from = position === null || position === undefined ? f.at : Number(position);
    const part = bytes.subarray(from, from + length);
    buffer.set(part, offset);
    if (position === null || position === undefined) f.at += part.length;
    done(null, part.length);
  },
  close(fd, done) { open.delete(fd); done(null); },
  fstat(fd, done) { const f = open.get(fd); f ? done(null, about(f.name)) : done(failure("EBADF")); },
  stat(path, done) { const s = about(clean(path)); s ? done(null, s) : done(failure("ENOENT")); },
  lstat(path, done) { this.stat(path, done); },
  readdir(path, done) { done(failure("ENOSYS")); },
  fsync(fd, done) { done(null); },
};
for (const name of ["chmod", "chown", "fchmod", "fchown", "ftruncate", "lchown", "link", "mkdir", "readlink", "rename", "rmdir", "symlink", "truncate", "unlink", "utimes"]) {
  globalThis.fs[name] = (...args) => args.at(-1)(failure("ENOSYS"));
}
globalThis.process = {
  getuid: () => -1, getgid: () => -1, geteuid: () => -1, getegid: () => -1, getgroups: () => [], pid: -1, ppid: -1,
  umask: () => 0, cwd: () => "/", chdir() { throw failure("ENOSYS"); },
};
globalThis.path = { resolve: (...parts) => parts.join("/") };

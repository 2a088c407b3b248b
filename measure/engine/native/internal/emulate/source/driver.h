// What the parts of the library share.
#include <functional>

// emulated_queue does work now, or records it where the stream is being recorded.
void emulated_queue(void *stream, std::function<void()> work);

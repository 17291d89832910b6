/* Rust's library takes random numbers from a library of Windows that wine 8 does not have. This one takes them from
 * `RtlGenRandom`, which wine has under its number. */
__declspec(dllimport) unsigned char __stdcall SystemFunction036(void *buffer, unsigned long length);

__declspec(dllexport) int __stdcall ProcessPrng(unsigned char *buffer, unsigned long long length) {
    return SystemFunction036(buffer, (unsigned long)length);
}

/* Its entry: without the C library, which Zig would compile first. */
int __stdcall DllMainCRTStartup(void *instance, unsigned long reason, void *reserved) {
    return 1;
}

/*
 * Other calling conventions than the platform's on x86-64, for conventions.c: ms_abi with its shadow space, callees
 * that save every register, and clang's preserve_most, preserve_all, regcall and vectorcall.
 */
#ifndef TEST_PROG_CPU_CONVENTIONS_H
#define TEST_PROG_CPU_CONVENTIONS_H

__attribute__((ms_abi)) TRACED static double of_windows(int a, double b, long c, float d, long e, double f)
{
	TRUTH();
	return a + b * 2 + c * 3 + d * 4 + e * 5 + f * 6;
}

__attribute__((ms_abi)) TRACED static long windows_sum(int count, ...)
{
	TRUTH();
	__builtin_ms_va_list list;
	long total = 0;

	__builtin_ms_va_start(list, count);
	while (count--)
		total += __builtin_va_arg(list, long);
	__builtin_ms_va_end(list);
	return total;
}

__attribute__((ms_abi)) TRACED static long calls_back(long (*function)(long), long x)
{
	TRUTH();
	return function(x) + function(x + 1);
}

TRACED static void windows(void)
{
	TRUTH();
	__attribute__((ms_abi)) long (*volatile pointer)(long (*)(long), long) = calls_back;

	printf("%.1f %ld %ld\n", of_windows(1, 2.5, 3, 4.5f, 5, 6.5), windows_sum(6, 1L, 2L, 3L, 4L, 5L, 6L),
	       pointer(ours, 10));
}

__attribute__((no_caller_saved_registers, target("general-regs-only"))) SIMPLE static long keeps(long x)
{
	__asm__ volatile("" : "+r"(x)::"rcx", "rdx", "rsi", "r8", "r9", "r10", "r11");
	return x + 7;
}

#if defined(__clang__)
__attribute__((preserve_most)) SIMPLE static long most(long x)
{
	__asm__ volatile("" : "+r"(x)::"rcx", "rdx", "rsi", "r8", "r9", "r10");
	return x + 11;
}

__attribute__((preserve_all)) SIMPLE static long all(long x)
{
	__asm__ volatile("" : "+r"(x)::"rcx", "rdx", "rsi", "r8", "r9", "r10", "xmm3", "xmm15");
	return x + 13;
}

__attribute__((regcall)) TRACED static long by_registers(long a, long b, long c, long d, long e, long f, long g, long h)
{
	static const char symbol[] = "__regcall3__by_registers";
	long result = a + b * 2 + c * 3 + d * 4 + e * 5 + f * 6 + g * 7 + h * 8;

	truth_line('>', symbol);
	truth_line('<', symbol);
	return result;
}

__attribute__((vectorcall)) TRACED static double by_vectors(double a, float b, long c, double d, double e, double f)
{
	TRUTH();
	return a + b * 2 + c * 3 + d * 4 + e * 5 + f * 6;
}

TRACED static long others(long x)
{
	return most(x) + all(x + 1) + most(x + 2);
}
#else
TRACED static long others(long x)
{
	return 0;
}
#endif

TRACED static void of_this_cpu(void)
{
	TRUTH();
	windows();
#if defined(__clang__)
	printf("%ld %.1f\n", by_registers(1, 2, 3, 4, 5, 6, 7, 8), by_vectors(1, 2, 3, 4, 5, 6));
#endif
}

#endif

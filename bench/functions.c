/* A program that has many functions and calls one, for the benchmark of starting under trace. */
extern int function_0(int x);

int main(void)
{
	return function_0(0);
}

-- A Lua workload that prints the same on every run: calls, strings, tables, closures, metatables, floating point,
-- errors; no coroutines.  The argument scales it.
local scale = tonumber(arg[1] or "1")

local function fib(n)
	return n < 2 and n or fib(n - 1) + fib(n - 2)
end

local function strings(n)
	local parts = {}
	for i = 1, n do
		parts[#parts + 1] = string.format("%d:%s", i, ("x"):rep(i % 17))
	end
	local text = table.concat(parts, ",")
	local _, count = text:gsub("x+", "<%0>")
	local words = 0
	for _ in text:gmatch("%d+:") do
		words = words + 1
	end
	return #text + count + words, text:upper():find("X:", 1, true)
end

local function sorting(n)
	local seed, values = 42, {}
	for i = 1, n do
		seed = (seed * 1103515245 + 12345) % 2147483648
		values[i] = {key = seed, name = "n" .. seed % 1000}
	end
	table.sort(values, function(a, b) return a.key < b.key end)
	local sum = 0
	for i = 1, n, 97 do
		sum = (sum * 31 + values[i].key) % 1000000007
	end
	return sum
end

local Vector = {}
Vector.__index = Vector
Vector.__add = function(a, b) return setmetatable({x = a.x + b.x, y = a.y + b.y}, Vector) end
function Vector:length() return math.sqrt(self.x * self.x + self.y * self.y) end

local function objects(n)
	local total = setmetatable({x = 0, y = 0}, Vector)
	for i = 1, n do
		total = total + setmetatable({x = math.sin(i), y = i % 3}, Vector)
	end
	return total:length()
end

local function closures(n)
	local chain = function(x) return x end
	for i = 1, 20 do
		local inner = chain
		chain = function(x) return inner(x + i) end
	end
	local sum = 0
	for i = 1, n do
		sum = sum + chain(i)
	end
	return sum
end

local function errors(n)
	local caught = 0
	for i = 1, n do
		local ok = pcall(function() if i % 2 == 0 then error({code = i}) end end)
		caught = caught + (ok and 0 or 1)
	end
	return caught
end

local function sieve(n)
	local composite, count = {}, 0
	for i = 2, n do
		if not composite[i] then
			count = count + 1
			for j = i * i, n, i do composite[j] = true end
		end
	end
	return count
end

for _ = 1, scale do
	print("fib", fib(24))
	print("strings", strings(8000))
	print("sorting", sorting(12000))
	print("objects", string.format("%.6f", objects(40000)))
	print("closures", closures(8000))
	print("errors", errors(800))
	print("sieve", sieve(60000))
end

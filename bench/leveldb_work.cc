/*
 * A LevelDB workload with several threads: puts, overwrites, deletes, gets, iterators, snapshots and compaction.
 *
 *     leveldb_work FOLDER [THREADS [KEYS]]
 *
 * Each thread has keys of its own, so that what is printed does not depend on who ran when.
 */
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "leveldb/cache.h"
#include "leveldb/db.h"
#include "leveldb/filter_policy.h"
#include "leveldb/write_batch.h"

namespace
{
struct Tally {
	long found = 0, missing = 0, scanned = 0;
	unsigned long sum = 0;
};

unsigned next_random(unsigned &state)
{
	state = state * 1664525u + 1013904223u;
	return state >> 8;
}

std::string key_of(int thread, long number)
{
	char text[32];

	snprintf(text, sizeof(text), "t%02d-%08ld", thread, number);
	return text;
}

std::string value_of(int thread, long number)
{
	unsigned state = thread * 7919u + number;
	std::string value(40 + next_random(state) % 160, 'a' + number % 26);

	for (char &c : value)
		if (next_random(state) % 4 == 0)
			c = 'A' + next_random(state) % 26;
	return value;
}

void check(const leveldb::Status &status)
{
	if (!status.ok()) {
		fprintf(stderr, "leveldb: %s\n", status.ToString().c_str());
		exit(1);
	}
}

void fill(leveldb::DB *db, int thread, long keys)
{
	leveldb::WriteBatch batch;

	for (long i = 0; i < keys; i++) {
		batch.Put(key_of(thread, i), value_of(thread, i));
		if (i % 100 == 99 || i == keys - 1) {
			check(db->Write(leveldb::WriteOptions(), &batch));
			batch.Clear();
		}
	}
	for (long i = 0; i < keys; i += 7)
		check(db->Delete(leveldb::WriteOptions(), key_of(thread, i)));
	for (long i = 0; i < keys; i += 5)
		check(db->Put(leveldb::WriteOptions(), key_of(thread, i), "again"));
}

void read(leveldb::DB *db, int thread, long keys, Tally &tally)
{
	unsigned state = thread + 1;
	std::string value;

	for (long i = 0; i < keys; i++) {
		if (db->Get(leveldb::ReadOptions(), key_of(thread, next_random(state) % keys), &value).ok()) {
			tally.found++;
			tally.sum = tally.sum * 31 + value.size() + value[0];
		} else {
			tally.missing++;
		}
	}
}

void scan(leveldb::DB *db, int thread, Tally &tally)
{
	const leveldb::Snapshot *snapshot = db->GetSnapshot();
	leveldb::ReadOptions options;
	const std::string end = key_of(thread + 1, 0);

	options.snapshot = snapshot;
	std::unique_ptr<leveldb::Iterator> it(db->NewIterator(options));
	for (it->Seek(key_of(thread, 0)); it->Valid() && it->key().ToString() < end; it->Next()) {
		tally.scanned++;
		tally.sum = tally.sum * 31 + it->value().size();
	}
	check(it->status());
	it.reset();
	db->ReleaseSnapshot(snapshot);
}

void work(leveldb::DB *db, int thread, long keys, Tally &tally)
{
	fill(db, thread, keys);
	read(db, thread, keys, tally);
	scan(db, thread, tally);
}
} // namespace

int main(int argc, char **argv)
{
	if (argc < 2) {
		fprintf(stderr, "usage: leveldb_work FOLDER [THREADS [KEYS]]\n");
		return 2;
	}
	const int threads = argc > 2 ? atoi(argv[2]) : 4;
	const long keys = argc > 3 ? atol(argv[3]) : 20000;
	std::unique_ptr<const leveldb::FilterPolicy> filter(leveldb::NewBloomFilterPolicy(10));
	std::unique_ptr<leveldb::Cache> cache(leveldb::NewLRUCache(4 << 20));
	leveldb::Options options;
	leveldb::DB *opened = nullptr;

	options.create_if_missing = true;
	options.filter_policy = filter.get();
	options.block_cache = cache.get();
	options.write_buffer_size = 256 << 10;
	check(leveldb::DestroyDB(argv[1], options));
	check(leveldb::DB::Open(options, argv[1], &opened));
	std::unique_ptr<leveldb::DB> db(opened);

	std::vector<Tally> tallies(threads);
	std::vector<std::thread> running;
	for (int i = 0; i < threads; i++)
		running.emplace_back(work, db.get(), i, keys, std::ref(tallies[i]));
	for (std::thread &thread : running)
		thread.join();
	db->CompactRange(nullptr, nullptr);
	for (int i = 0; i < threads; i++) {
		Tally after;

		scan(db.get(), i, after);
		printf("thread %d: %ld found, %ld missing, %ld scanned, sum %lx, after compaction %ld %lx\n", i,
		       tallies[i].found, tallies[i].missing, tallies[i].scanned, tallies[i].sum, after.scanned,
		       after.sum);
	}
	db.reset();
	return leveldb::DestroyDB(argv[1], options).ok() ? 0 : 1;
}

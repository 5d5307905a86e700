// SPDX-License-Identifier: MIT
/*
 * kvd._hot: GET, PUT and the look-up of many keys, the calls of kvd for Python whose cost is
 * mostly call overhead, as an extension in place of ctypes. It is optional, and uses the stable
 * ABI of Python 3.11: one file works with 3.11 and all later versions. It is not linked with
 * libkvd: ctypes has loaded libkvd and passes the addresses of the functions.
 *
 * It handles only the simple cases. In all others (a key that is neither str nor bytes, a wrong
 * length, a buffer, a closed client) it does nothing and returns 0; the caller then uses ctypes,
 * which raises the errors. The caller holds the client's guard; the GIL is released meanwhile.
 */
#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030b0000
#include <Python.h>
#include <stdint.h>

#include "client/kvd.h"

#define SCRATCH 16384	/* bytes of a value that needs no second GET */
#define LENGTHS_MAX 256 /* keys of lengths() */

PyMODINIT_FUNC PyInit__hot(void);

static enum kvd_status (*kvd_get_function)(struct kvd *, const void *, size_t, void *, size_t,
					   struct kvd_item *);
static enum kvd_status (*kvd_put_function)(struct kvd *, const void *, size_t, const void *, size_t,
					   const struct kvd_put_args *, uint64_t *);
static enum kvd_status (*kvd_exists_many_function)(struct kvd *, const struct kvd_key *, size_t,
						   struct kvd_exists *, size_t *);

/* init(get, put, exists_many): the addresses of kvd_get(), kvd_put() and kvd_exists_many() */
static PyObject *init(PyObject *module, PyObject *args)
{
	unsigned long long get, put, exists_many;

	(void)module;
	if (!PyArg_ParseTuple(args, "KKK", &get, &put, &exists_many))
		return NULL;
	kvd_get_function = (__typeof__(kvd_get_function))(uintptr_t)get;
	kvd_put_function = (__typeof__(kvd_put_function))(uintptr_t)put;
	kvd_exists_many_function = (__typeof__(kvd_exists_many_function))(uintptr_t)exists_many;
	return Py_NewRef(Py_None);
}

/* The bytes of an exact str or bytes. 1: success; 0: it is something else; -1: an error */
static int bytes_of(PyObject *object, const char **data, Py_ssize_t *len)
{
	PyTypeObject *type = Py_TYPE(object);
	char *bytes;

	if (type == &PyUnicode_Type) {
		*data = PyUnicode_AsUTF8AndSize(object, len);
		return *data ? 1 : -1;
	}
	if (type != &PyBytes_Type)
		return 0;
	if (PyBytes_AsStringAndSize(object, &bytes, len))
		return -1;
	*data = bytes;
	return 1;
}

/* The client of a call, as bytes_of() */
static int handle_of(PyObject *object, struct kvd **handle)
{
	if (object == Py_None || !kvd_get_function)
		return 0;
	*handle = PyLong_AsVoidPtr(object);
	if (*handle)
		return 1;
	return PyErr_Occurred() ? -1 : 0;
}

/* A key, as bytes_of() */
static int key_of(PyObject *object, const char **key, Py_ssize_t *len)
{
	int is = bytes_of(object, key, len);

	return is == 1 && (*len < 1 || *len > KVD_KEY_MAX) ? 0 : is;
}

/* The client and the key of a call, as bytes_of() */
static int arguments_of(PyObject *const *args, struct kvd **handle, const char **key,
			Py_ssize_t *len)
{
	int is = handle_of(args[0], handle);

	return is == 1 ? key_of(args[1], key, len) : is;
}

/* A value longer than the scratch: another GET reads it to bytes of its length */
static PyObject *get_long(struct kvd *handle, const char *key, size_t key_len,
			  struct kvd_item *item)
{
	enum kvd_status status = KVD_ERR_BUFFER;
	PyObject *value = NULL;
	size_t len = 0;

	while (status == KVD_ERR_BUFFER) {
		PyThreadState *thread;
		char *data;

		Py_XDECREF(value);
		len = item->value_len;
		value = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)len);
		if (!value)
			return NULL;
		data = PyBytes_AsString(value);
		thread = PyEval_SaveThread();
		status = kvd_get_function(handle, key, key_len, data, len, item);
		PyEval_RestoreThread(thread);
	}
	if (status == KVD_OK && item->value_len < len) {
		PyObject *part = PyBytes_FromStringAndSize(PyBytes_AsString(value),
							   (Py_ssize_t)item->value_len);

		Py_DECREF(value);
		return part;
	}
	if (status == KVD_OK)
		return value;
	Py_DECREF(value);
	if (status == KVD_NOT_FOUND)
		return Py_NewRef(Py_None);
	return PyLong_FromLong(status);
}

/* get(pointer, key) -> bytes, None, the status of an error, or 0 */
static PyObject *get(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
	struct kvd_item item = { 0 };
	struct kvd *handle = NULL;
	PyThreadState *thread;
	enum kvd_status status;
	char scratch[SCRATCH];
	const char *key = NULL;
	Py_ssize_t len = 0;
	int is;

	(void)module;
	if (count != 2) {
		PyErr_SetString(PyExc_TypeError, "get(pointer, key)");
		return NULL;
	}
	is = arguments_of(args, &handle, &key, &len);
	if (is != 1)
		return is ? NULL : PyLong_FromLong(0);
	thread = PyEval_SaveThread();
	status = kvd_get_function(handle, key, (size_t)len, scratch, sizeof(scratch), &item);
	PyEval_RestoreThread(thread);
	if (status == KVD_OK)
		return PyBytes_FromStringAndSize(scratch, (Py_ssize_t)item.value_len);
	if (status == KVD_NOT_FOUND)
		return Py_NewRef(Py_None);
	if (status == KVD_ERR_BUFFER)
		return get_long(handle, key, (size_t)len, &item);
	return PyLong_FromLong(status);
}

/* put(pointer, key, value) -> the version, minus the status of an error, or 0 */
static PyObject *put(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
	const char *key = NULL, *value = NULL;
	Py_ssize_t len = 0, value_len = 0;
	struct kvd *handle = NULL;
	PyThreadState *thread;
	enum kvd_status status;
	uint64_t version = 0;
	int is;

	(void)module;
	if (count != 3) {
		PyErr_SetString(PyExc_TypeError, "put(pointer, key, value)");
		return NULL;
	}
	is = arguments_of(args, &handle, &key, &len);
	if (is == 1)
		is = bytes_of(args[2], &value, &value_len);
	if (is != 1)
		return is ? NULL : PyLong_FromLong(0);
	thread = PyEval_SaveThread();
	status = kvd_put_function(handle, key, (size_t)len, value, (size_t)value_len, NULL,
				  &version);
	PyEval_RestoreThread(thread);
	return status == KVD_OK ? PyLong_FromUnsignedLongLong(version) :
				  PyLong_FromLong(-(long)status);
}

/* The keys of a tuple, as bytes_of(); the tuple keeps them */
static int keys_of(PyObject *tuple, struct kvd_key *keys, Py_ssize_t count)
{
	const char *key = NULL;
	Py_ssize_t i, len = 0;
	int is = 1;

	for (i = 0; i < count && is == 1; i++) {
		is = key_of(PyTuple_GetItem(tuple, i), &key, &len);
		keys[i] = (struct kvd_key){ key, (size_t)len };
	}
	return is;
}

static PyObject *lengths_list(const struct kvd_exists *results, Py_ssize_t count)
{
	PyObject *list = PyList_New(count), *number;
	Py_ssize_t i;

	for (i = 0; list && i < count; i++) {
		number = results[i].status ? PyLong_FromLong(-(long)results[i].status) :
					     PyLong_FromSize_t(results[i].item.value_len);
		/* PyList_SetItem() takes the number over. */
		if (!number || PyList_SetItem(list, i, number)) {
			Py_DECREF(list);
			return NULL;
		}
	}
	return list;
}

/* lengths(pointer, keys) -> the length of each key's value, or minus the status; or 0 */
static PyObject *lengths(PyObject *module, PyObject *const *args, Py_ssize_t count)
{
	struct kvd_exists results[LENGTHS_MAX];
	struct kvd_key keys[LENGTHS_MAX];
	struct kvd *handle = NULL;
	PyThreadState *thread;
	PyObject *tuple, *list;
	int is;

	(void)module;
	if (count != 2) {
		PyErr_SetString(PyExc_TypeError, "lengths(pointer, keys)");
		return NULL;
	}
	is = handle_of(args[0], &handle);
	if (is != 1)
		return is ? NULL : PyLong_FromLong(0);
	/* Other threads may change the list meanwhile. */
	tuple = PySequence_Tuple(args[1]);
	if (!tuple)
		return NULL;
	count = PyTuple_Size(tuple);
	is = count <= LENGTHS_MAX ? keys_of(tuple, keys, count) : 0;
	if (is != 1) {
		Py_DECREF(tuple);
		return is ? NULL : PyLong_FromLong(0);
	}
	thread = PyEval_SaveThread();
	kvd_exists_many_function(handle, keys, (size_t)count, results, NULL);
	PyEval_RestoreThread(thread);
	list = lengths_list(results, count);
	Py_DECREF(tuple);
	return list;
}

static PyMethodDef methods[] = {
	{ "init", init, METH_VARARGS,
	  "init(get, put, exists_many): addresses of libkvd's functions" },
	{ "get", (PyCFunction)(void (*)(void))get, METH_FASTCALL,
	  "get(pointer, key) -> bytes, None, a status, or 0: use ctypes" },
	{ "put", (PyCFunction)(void (*)(void))put, METH_FASTCALL,
	  "put(pointer, key, value) -> version, minus a status, or 0: use ctypes" },
	{ "lengths", (PyCFunction)(void (*)(void))lengths, METH_FASTCALL,
	  "lengths(pointer, keys) -> lengths, or minus statuses, or 0: use ctypes" },
	{ 0 },
};

static struct PyModuleDef definition = {
	PyModuleDef_HEAD_INIT,
	.m_name = "_hot",
	.m_doc = "GET, PUT and look-ups of libkvd, for kvd.Client alone.",
	.m_size = -1,
	.m_methods = methods,
};

PyMODINIT_FUNC PyInit__hot(void)
{
	PyObject *module = PyModule_Create(&definition);

	/* The version of the kvd.h that it was compiled with. */
	if (module && (PyModule_AddIntMacro(module, KVD_VERSION_MAJOR) ||
		       PyModule_AddIntMacro(module, KVD_VERSION_MINOR))) {
		Py_DECREF(module);
		return NULL;
	}
	return module;
}
